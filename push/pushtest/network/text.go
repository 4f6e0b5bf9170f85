package network

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// String returns the text form of conditions, which [ParseConditions] parses to the same ones, if they are valid. It uses no names of presets,
// except "none" for the zero value.
func (c Conditions) String() string {
	var items []string
	item := func(is bool, key, value string) {
		if is {
			items = append(items, key+"="+value)
		}
	}
	both := func(key, up, down string) {
		switch {
		case up == down:
			item(up != "", key, up)
		default:
			item(up != "", key+"-up", up)
			item(down != "", key+"-down", down)
		}
	}
	both("delay", timeText(c.Up.Delay), timeText(c.Down.Delay))
	both("jitter", timeText(c.Up.Jitter), timeText(c.Down.Jitter))
	item(c.Down.Bandwidth != 0, "down", bandwidthText(c.Down.Bandwidth))
	item(c.Up.Bandwidth != 0, "up", bandwidthText(c.Up.Bandwidth))
	both("buffer", bytesText(c.Up.Buffer), bytesText(c.Down.Buffer))
	item(c.Stalls != Stalls{}, "stall", c.Stalls.text())
	item(c.Reset != 0, "reset", timeText(c.Reset))
	item(c.HalfOpen != 0, "halfopen", timeText(c.HalfOpen))
	if c.Refuse {
		items = append(items, "refuse")
	}
	item(c.Seed != 0, "seed", strconv.FormatUint(c.Seed, 10))
	if len(items) == 0 {
		return "none"
	}
	return strings.Join(items, ",")
}

func (s *Stalls) text() string {
	lengths := s.Least.String()
	if s.Most != s.Least {
		lengths += "-" + s.Most.String()
	}
	return lengths + "/" + s.Every.String()
}

func timeText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// bandwidthText returns bytes a second in bits, with the largest unit of which it is a whole number.
func bandwidthText(bytes int64) string {
	bits := bytes * 8
	switch {
	case bits%1e9 == 0:
		return fmt.Sprintf("%dGbit", bits/1e9)
	case bits%1e6 == 0:
		return fmt.Sprintf("%dMbit", bits/1e6)
	case bits%1e3 == 0:
		return fmt.Sprintf("%dkbit", bits/1e3)
	}
	return fmt.Sprintf("%dbit", bits)
}

func bytesText(n int) string {
	switch {
	case n == 0:
		return ""
	case n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprintf("%dB", n)
}
