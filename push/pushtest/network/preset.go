package network

import "time"

// Preset is a network with a name, which [ParseConditions] knows.
type Preset struct {
	Name       string
	About      string // what it is like, in a few words
	Conditions Conditions
}

// Presets returns the networks that have names. They belong to the caller.
//
// Bandwidths and delays of dsl and 3g are those of the profiles that web browsers and WebPageTest throttle with (round trips of 50 ms and
// 300 ms, of which a way has half); jitter is ours. The others are there to be hard on what goes through them.
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
