package check

import (
	"slices"
	"strings"
	"time"
)

// Unit is a unit of systemd, or a part of one: the values of the settings by section and name. Settings that are given several times have several.
type Unit map[string]map[string][]string

// settings are those that units of ours use. Another one is a misspelling, or belongs here.
var settings = map[string][]string{
	"Unit": {"Description", "Documentation", "After", "Wants"},
	"Service": {
		"Type", "User", "Group", "Environment", "LoadCredential", "ExecStartPre", "ExecStart", "KillSignal", "KillMode", "TimeoutStopSec", "Restart",
		"RestartSec", "LimitNOFILE", "OOMScoreAdjust", "StateDirectory", "StateDirectoryMode", "UMask", "NoNewPrivileges", "CapabilityBoundingSet",
		"AmbientCapabilities", "ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices", "ProtectClock", "ProtectHostname", "ProtectKernelLogs",
		"ProtectKernelModules", "ProtectKernelTunables", "ProtectControlGroups", "ProtectProc", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID",
		"RestrictAddressFamilies", "LockPersonality", "MemoryDenyWriteExecute", "RemoveIPC", "SystemCallArchitectures", "SystemCallFilter",
	},
	"Install": {"WantedBy"},
}

// DecodeUnit reads a unit, and returns what is wrong with it.
func DecodeUnit(text string) (Unit, []string) {
	unit, section := make(Unit), ""
	var found problems
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]")
			if settings[section] == nil {
				found.add("there is no section %q", section)
			}
			if unit[section] == nil {
				unit[section] = make(map[string][]string)
			}
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || section == "" {
			found.add("%q is no setting of a section", line)
			continue
		}
		if !slices.Contains(settings[section], name) {
			found.add("section %s has no setting %q", section, name)
		}
		unit[section][name] = append(unit[section][name], value)
	}
	return unit, found
}

// value returns the last value of a setting of the service.
func (u Unit) value(name string) string {
	values := u["Service"][name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// Environ returns the variables of the service, NAME=VALUE.
func (u Unit) Environ() []string {
	var environ []string
	for _, line := range u["Service"]["Environment"] {
		for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
			var entry string
			if rest, ok := strings.CutPrefix(line, `"`); ok {
				entry, line, _ = strings.Cut(rest, `"`)
			} else {
				entry, line, _ = strings.Cut(line, " ")
			}
			environ = append(environ, strings.ReplaceAll(entry, "%d", "/run/credentials/sluice.service"))
		}
	}
	return environ
}

// Draining checks that systemd waits for the node to drain, and returns what is wrong. drain is how long that takes.
func (u Unit) Draining(drain time.Duration) []string {
	var found problems
	if signal := u.value("KillSignal"); signal != "" && signal != "SIGTERM" {
		found.add("KillSignal is %s, which does not drain the node", signal)
	}
	if timeout, err := time.ParseDuration(u.value("TimeoutStopSec") + "s"); err != nil || timeout < drain+Rest {
		found.add("TimeoutStopSec is %q, but a drain takes %v, with the rest", u.value("TimeoutStopSec"), drain+Rest)
	}
	return found
}
