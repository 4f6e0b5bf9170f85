package network_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/pushtest/network"
)

func TestParseConditions(t *testing.T) {
	for text, want := range map[string]string{
		"none": "none",
		"delay=200ms,jitter=50ms,down=50kbit,up=50kbit,stall=2s/30s,reset=60s": "delay=200ms,jitter=50ms,down=50kbit,up=50kbit,stall=2s/30s,reset=1m0s",
		"edge":                                   "delay=300ms,jitter=200ms,down=50kbit,up=50kbit",
		"3g,delay-up=1s":                         "delay-up=1s,delay-down=150ms,jitter=50ms,down=1600kbit,up=768kbit",
		" dsl , refuse , seed=7":                 "delay=25ms,jitter=5ms,down=1500kbit,up=384kbit,refuse,seed=7",
		"wifi-lossy":                             "delay=5ms,jitter=15ms,down=20Mbit,up=10Mbit,stall=200ms-2s/10s",
		"wifi-lossy,stall=0s/0s":                 "delay=5ms,jitter=15ms,down=20Mbit,up=10Mbit",
		"flaky,halfopen=1h":                      "delay=40ms,jitter=40ms,reset=30s,halfopen=1h0m0s",
		"up=1.6Mbit":                             "up=1600kbit",
		"down=1B":                                "down=8bit",
		"down=20kB":                              "down=160kbit",
		"up=80Gbit":                              "up=80Gbit",
		"buffer=64KiB":                           "buffer=64KiB",
		"buffer=1500B,jitter-down=1ms":           "jitter-down=1ms,buffer=1500B",
		"buffer-up=1MB,buffer-down=1MiB":         "buffer-up=1000000B,buffer-down=1MiB",
		"delay=0s":                               "none",
		"stall=1s-1s/1m":                         "stall=1s/1m0s",
		"delay=1s,delay-down=0s,seed=" + maxSeed: "delay-up=1s,seed=" + maxSeed,
	} {
		c, err := network.ParseConditions(text)
		if err != nil || c.String() != want {
			t.Errorf("%q: %v, %v; want %s", text, c, err, want)
		}
		again, err := network.ParseConditions(c.String())
		if err != nil || again != c {
			t.Errorf("%q: %+v is read again as %+v, %v", text, c, again, err)
		}
	}
}

const maxSeed = "18446744073709551615"

func TestParseConditionsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "an item is empty: write a name",
		"3g,":                 "an item is empty",
		"4g":                  `unknown name "4g": use none, dsl, 3g, edge, wifi-lossy, flaky, or items as in delay=200ms`,
		"delay":               "delay has no value",
		"jitter-up":           "jitter-up has no value",
		"delay=x":             `delay "x" is not a time: write it as in delay=200ms`,
		"delay=-1s":           "delay-up of -1s: use 0 to 1h0m0s",
		"jitter-down=2h":      "jitter-down of 2h0m0s: use 0 to 1h0m0s",
		"down=50":             `down "50" is not a bandwidth: write it as in down=50kbit`,
		"up=0kbit":            `up "0kbit" is not a bandwidth`,
		"up=-5kbit":           `up "-5kbit" is not a bandwidth`,
		"down=1e3kbit":        `down "1e3kbit" is not a bandwidth`,
		"down=99999Gbit":      `down "99999Gbit" is not a bandwidth`,
		"buffer=0B":           `buffer "0B" is not a size: write it as in buffer=64KiB`,
		"buffer-up=1GiB":      `buffer-up "1GiB" is not a size`,
		"stall=2s":            `stall "2s": write how long and how often`,
		"stall=2s/0s":         "stalls every 0s: use more than 0",
		"stall=2s-1s/5s":      "stalls of 2s to 1s: use 1ms to 1h0m0s",
		"stall=1us/5s":        "stalls of 1µs to 1µs",
		"reset=2h":            "reset after 2h0m0s",
		"halfopen=-1s":        "halfopen after -1s",
		"seed=-1":             `seed "-1" is not a number`,
		"delay=1ms,delay=2ms": "duplicate item delay",
		"delay=1ms,3g":        "the name 3g must come first",
		"reset-up=5s":         `unknown item "reset-up": use delay, jitter, buffer, up, down, stall, reset, halfopen, seed or refuse`,
		"=5":                  `unknown item ""`,
		"refuse=yes":          "refuse has no value",
	} {
		c, err := network.ParseConditions(text)
		if err == nil || !strings.HasPrefix(err.Error(), "network: ") || !strings.Contains(err.Error(), want) || c != (network.Conditions{}) {
			t.Errorf("%q: %v, %v; want %s", text, c, err, want)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []network.Conditions{
		{Up: network.Way{Bandwidth: -1}},
		{Down: network.Way{Buffer: -1}},
		{Down: network.Way{Bandwidth: 10_000_000_001}},
		{Stalls: network.Stalls{Least: time.Second, Most: time.Second}},
		{Stalls: network.Stalls{Every: time.Second}},
	} {
		if c.Validate() == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

// A name parses to its preset, whose text form parses to the same conditions.
func TestPresets(t *testing.T) {
	for _, p := range network.Presets() {
		for _, text := range []string{p.Name, p.Conditions.String()} {
			if c, err := network.ParseConditions(text); err != nil || c != p.Conditions {
				t.Errorf("%s: %q is read as %v, %v", p.Name, text, c, err)
			}
		}
		if p.About == "" {
			t.Errorf("%s: what is it like?", p.Name)
		}
	}
}

// Parsed conditions are valid, and their text form parses to the same conditions.
func FuzzParseConditions(f *testing.F) {
	for _, p := range network.Presets() {
		f.Add(p.Name)
		f.Add(p.Conditions.String())
	}
	f.Add("delay-up=1h,jitter-down=1ns,up=8bit,down=80Gbit,buffer=1B,stall=1ms-1h/1ns,reset=1ns,halfopen=1ns,refuse,seed=1")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := network.ParseConditions(text)
		if err != nil {
			return
		}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		if again, err := network.ParseConditions(c.String()); err != nil || again != c {
			t.Fatalf("%s is read as %s, %v", c, again, err)
		}
	})
}
