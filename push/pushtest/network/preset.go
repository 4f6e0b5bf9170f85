package network

import "time"

// Preset is a network with a name for [ParseConditions].
type Preset struct {
	Name       string
	About      string // a short description
	Conditions Conditions
}

// Presets returns the named networks. The slice belongs to the caller.
//
// Bandwidths and delays of dsl and 3g are those of the throttling profiles of web browsers and WebPageTest (round trips of 50 ms and 300 ms,
// half of them for each way). Jitter is an addition. The other presets are meant to be harsh.
func Presets() []Preset {
	const kbit = 1000 / 8
	both := func(w Way) Conditions { return Conditions{Up: w, Down: w} }
	ways := func(delay, jitter time.Duration, down, up int64) Conditions {
		c := both(Way{Delay: delay, Jitter: jitter})
		c.Down.Bandwidth, c.Up.Bandwidth = down*kbit, up*kbit
		return c
	}
	edge := ways(300*time.Millisecond, 200*time.Millisecond, 50, 50)
	wifi := ways(5*time.Millisecond, 15*time.Millisecond, 20_000, 10_000)
	wifi.Stalls = Stalls{Least: 200 * time.Millisecond, Most: 2 * time.Second, Every: 10 * time.Second}
	flaky := both(Way{Delay: 40 * time.Millisecond, Jitter: 40 * time.Millisecond})
	flaky.Reset = 30 * time.Second
	return []Preset{
		{"none", "no weakness at all", Conditions{}},
		{"dsl", "a line at home", ways(25*time.Millisecond, 5*time.Millisecond, 1500, 384)},
		{"3g", "a phone that has a signal", ways(150*time.Millisecond, 50*time.Millisecond, 1600, 768)},
		{"edge", "a phone that barely has one", edge},
		{"wifi-lossy", "a wireless network that loses packets: short stalls", wifi},
		{"flaky", "a network whose connections do not live long", flaky},
	}
}
