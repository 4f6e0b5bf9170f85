package capacity

import (
	"math"
	"testing"

	"github.com/sluice-push/sluice/push/config"
)

// A node without configured limits accepts as many clients as it has descriptors and memory for, with a reserve.
func TestCapacity(t *testing.T) {
	const gib = 1 << 30
	for _, tt := range []struct {
		c        Capacity
		sessions int
	}{
		{Capacity{1024, 16 * gib}, 768},
		{Capacity{100, 16 * gib}, 50},
		{Capacity{1 << 20, gib / 2}, 8192},
		{Capacity{1 << 20, 16 * gib}, 262_144},
		{Capacity{1 << 30, math.MaxInt64}, 1<<30 - 256},
		{Capacity{0, 0}, 1},
	} {
		if got := tt.c.sessions(); got != tt.sessions {
			t.Errorf("%+v: %d sessions, want %d", tt.c, got, tt.sessions)
		}
	}
	own := Own()
	if own.descriptors <= 0 || own.memory <= 0 {
		t.Errorf("%+v", own)
	}
	l := Capacity{1024, gib}.Fill(config.Limits{})
	if l.Sessions != 768 || l.Backlog != gib/8 {
		t.Errorf("%+v", l)
	}
	if l = own.Fill(config.Limits{Sessions: 5, Backlog: 6}); l.Sessions != 5 || l.Backlog != 6 {
		t.Errorf("%+v", l)
	}
}

func TestReadsMemoryLimits(t *testing.T) {
	for text, want := range map[string]int64{
		"MemTotal:       24684092 kB\nMemFree: 1 kB\n": 24684092 << 10,
		"MemFree: 1 kB\n":                     math.MaxInt64,
		"MemTotal: 99999999999999999999 kB\n": math.MaxInt64,
		"":                                    math.MaxInt64,
	} {
		if got := totalMemory(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]int64{"max\n": math.MaxInt64, "536870912\n": 512 << 20, "": math.MaxInt64, "-1": math.MaxInt64} {
		if got := groupLimit(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]int64{
		"Limit   Soft Limit  Hard Limit  Units\nMax address space         1945600000           unlimited            bytes     \n": 1945600000,
		"Max address space         unlimited            unlimited            bytes     \n":                                        math.MaxInt64,
		"Max cpu time 5 5 seconds\n": math.MaxInt64,
		"":                           math.MaxInt64,
	} {
		if got := addressSpace(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"0::/system.slice/sluice.service\n": "/system.slice/sluice.service",
		"4:memory:/a\n0::/\n":               "/",
		"0::/../..":                         "/",
		"":                                  "/",
	} {
		if got := unifiedGroup(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
