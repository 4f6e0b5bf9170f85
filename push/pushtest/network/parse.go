package network

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ParseConditions parses the text form of conditions: items separated by commas. The first may be the name of a preset, which the others change:
//
//	delay=200ms  jitter=50ms  buffer=64KiB   of both ways; delay-up, delay-down and so on: of one
//	up=50kbit  down=1.6Mbit                  bandwidths, in bit, kbit, Mbit, Gbit, B, kB, MB a second
//	stall=2s/30s  stall=200ms-2s/30s         stalls of 2 s, or of 200 ms to 2 s, each 30 s on average after the last
//	reset=60s  halfopen=60s                  how long connections live on average
//	refuse                                   new connections are refused
//	seed=7                                   of the random events
//
// The error names the item and says what it may be.
func ParseConditions(text string) (Conditions, error) {
	var c Conditions
	seen := map[string]bool{}
	for i, item := range strings.Split(text, ",") {
		item = strings.TrimSpace(item)
		key, value, hasValue := strings.Cut(item, "=")
		if seen[key] {
			return Conditions{}, fmt.Errorf("network: duplicate item %s: write it once", key)
		}
		seen[key] = true
		var err error
		switch {
		case hasValue:
			err = c.set(key, value)
		case key == "refuse":
			c.Refuse = true
		default:
			err = c.preset(key, i == 0)
		}
		if err != nil {
			return Conditions{}, fmt.Errorf("network: %w", err)
		}
	}
	if err := c.Validate(); err != nil {
		return Conditions{}, err
	}
	return c, nil
}

// preset sets all conditions to those of a preset.
func (c *Conditions) preset(name string, first bool) error {
	var names []string
	for _, p := range Presets() {
		switch {
		case p.Name == name && first:
			*c = p.Conditions
			return nil
		case p.Name == name:
			return fmt.Errorf("the name %s must come first, because it sets all items", name)
		}
		names = append(names, p.Name)
	}
	if name == "" {
		return errors.New("an item is empty: write a name, or items as in delay=200ms,down=50kbit")
	}
	if isKey(name) {
		return fmt.Errorf("%s has no value: write it as in delay=200ms,down=50kbit,stall=2s/30s", name)
	}
	return fmt.Errorf("unknown name %q: use %s, or items as in delay=200ms,down=50kbit", name, strings.Join(names, ", "))
}

// The keys of items with values. Those of ways may have the suffix -up or -down.
func wayKeys() []string   { return []string{"delay", "jitter", "buffer"} }
func wholeKeys() []string { return []string{"up", "down", "stall", "reset", "halfopen", "seed"} }

func isKey(key string) bool {
	if slices.Contains(wholeKeys(), key) {
		return true
	}
	key = strings.TrimSuffix(strings.TrimSuffix(key, "-up"), "-down")
	return slices.Contains(wayKeys(), key)
}

// set sets one of the conditions.
func (c *Conditions) set(key, value string) (err error) {
	switch key {
	case "up":
		c.Up.Bandwidth, err = parseBandwidth(key, value)
		return err
	case "down":
		c.Down.Bandwidth, err = parseBandwidth(key, value)
		return err
	case "stall":
		c.Stalls, err = parseStalls(value)
		return err
	case "reset":
		c.Reset, err = parseTime(key, value)
		return err
	case "halfopen":
		c.HalfOpen, err = parseTime(key, value)
		return err
	case "refuse":
		return errors.New("refuse has no value: write the word alone")
	case "seed":
		if c.Seed, err = strconv.ParseUint(value, 10, 64); err != nil {
			return fmt.Errorf("seed %q is not a number: write digits, as in seed=7", value)
		}
		return nil
	}
	name, ways := key, []*Way{&c.Up, &c.Down}
	if before, ok := strings.CutSuffix(key, "-up"); ok {
		name, ways = before, ways[:1]
	} else if before, ok := strings.CutSuffix(key, "-down"); ok {
		name, ways = before, ways[1:]
	}
	return setWays(ways, name, key, value)
}

// setWays sets one value of one way, or of both.
func setWays(ways []*Way, name, key, value string) error {
	var t time.Duration
	var bytes int64
	var err error
	switch name {
	case "delay", "jitter":
		t, err = parseTime(key, value)
	case "buffer":
		bytes, err = parseBytes(key, value)
	default:
		return fmt.Errorf("unknown item %q: use %s, %s or refuse; the first three with -up or -down for one way", key,
			strings.Join(wayKeys(), ", "), strings.Join(wholeKeys(), ", "))
	}
	if err != nil {
		return err
	}
	for _, w := range ways {
		switch name {
		case "delay":
			w.Delay = t
		case "jitter":
			w.Jitter = t
		case "buffer":
			w.Buffer = int(bytes)
		}
	}
	return nil
}

func parseTime(key, value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil {
		return 0, fmt.Errorf("%s %q is not a time: write it as in %s=200ms, or 2s, 1m30s", key, value, key)
	}
	return d, nil
}

// parseStalls parses LEAST-MOST/EVERY, or LENGTH/EVERY.
func parseStalls(value string) (Stalls, error) {
	lengths, every, _ := strings.Cut(value, "/")
	least, most, isRange := strings.Cut(lengths, "-")
	if !isRange {
		most = least
	}
	var s Stalls
	for _, t := range []struct {
		to   *time.Duration
		text string
	}{{&s.Least, least}, {&s.Most, most}, {&s.Every, every}} {
		var err error
		if *t.to, err = time.ParseDuration(t.text); err != nil {
			return Stalls{}, fmt.Errorf("stall %q: write how long and how often, as in stall=2s/30s or stall=200ms-2s/30s", value)
		}
	}
	return s, nil
}

// unit is a unit of a number, with its size in bytes.
type unit struct {
	name string
	size float64
}

// parseBandwidth parses a bandwidth, and returns bytes a second.
func parseBandwidth(key, value string) (int64, error) {
	n, ok := parseNumber(value, []unit{
		{"Gbit", 1e9 / 8}, {"Mbit", 1e6 / 8}, {"kbit", 1e3 / 8}, {"bit", 1. / 8}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
	}, maxBandwidth)
	if !ok {
		return 0, fmt.Errorf("%s %q is not a bandwidth: write it as in %s=50kbit, or 1.6Mbit, 20kB, with at least a byte per second", key, value, key)
	}
	return n, nil
}

func parseBytes(key, value string) (int64, error) {
	n, ok := parseNumber(value, []unit{{"MiB", 1 << 20}, {"KiB", 1 << 10}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}}, maxBuffer)
	if !ok {
		return 0, fmt.Errorf("%s %q is not a size: write it as in %s=64KiB, or 20kB, 1MiB, 1500B", key, value, key)
	}
	return n, nil
}

// parseNumber parses a number with a unit, and rounds it. The result has to be from 1 to most.
func parseNumber(value string, units []unit, most float64) (int64, bool) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(value, u.name)
		if !ok {
			continue
		}
		if strings.Trim(digits, "0123456789.") != "" {
			return 0, false
		}
		v, err := strconv.ParseFloat(digits, 64)
		v = math.Round(v * u.size)
		if err != nil || !(v >= 1 && v <= most) {
			return 0, false
		}
		return int64(v), true
	}
	return 0, false
}
