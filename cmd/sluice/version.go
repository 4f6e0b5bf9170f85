package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

// Run prints the version of the module, the commit it was built from if that is known, and the version of Go.
func (*versionCmd) Run(env *environment) error {
	commit := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = " commit " + s.Value
			}
		}
	}
	_, err := fmt.Fprintf(env.stdout, "sluice %s%s %s %s/%s\n", version(), commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// version returns the version of the module.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
