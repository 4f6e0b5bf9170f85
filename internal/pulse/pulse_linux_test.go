package pulse_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/pulse"
)

// Beats come, the first one not too early, and end with the pulse.
func TestPulse(t *testing.T) {
	const every, beats = 2 * time.Millisecond, 20
	began := time.Now()
	p, err := pulse.New(every)
	if err != nil {
		t.Fatal(err)
	}
	for i := range beats {
		if err := p.Wait(); err != nil {
			t.Fatalf("beat %d: %v", i, err)
		}
		if i == 0 && time.Since(began) < every {
			t.Errorf("the first beat came after %v", time.Since(began))
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Wait(); err == nil {
		t.Error("a closed pulse beats")
	}
}

func took(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// Short rests are as short as they may be, others are whole, and no descriptor is kept for these.
func TestRest(t *testing.T) {
	const long, short = 8 * time.Millisecond, 2 * time.Millisecond
	r := pulse.NewRest(long, short)
	r.For(true) // the first one of a process may open descriptors for the runtime's poller too
	r.For(false)
	for i := range 3 {
		before := descriptors(t)
		if d := took(func() { r.For(true) }); d < short {
			t.Errorf("round %d: a short rest took %v", i, d)
		}
		var longs string
		for range 8 {
			longs += map[bool]string{false: "short ", true: "long "}[r.For(true)]
		}
		if want := "short short long short short short long short "; longs != want {
			t.Errorf("round %d: rests were %sinstead of %s", i, longs, want)
		}
		if n := descriptors(t); n != before+1 {
			t.Errorf("round %d: %d descriptors, then %d", i, before, n)
		}
		if d := took(func() { longs = fmt.Sprint(r.For(false)) }); d < long || longs != "true" {
			t.Errorf("round %d: a rest took %v, long: %s", i, d, longs)
		}
		if n := descriptors(t); n != before {
			t.Errorf("round %d: %d descriptors, in the end %d", i, before, n)
		}
	}
	r.For(true)
	r.End()
	r.End()
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// An interval that is none, and a process without descriptors, are told.
func TestPulseRefused(t *testing.T) {
	for _, every := range []time.Duration{0, -1} {
		if p, err := pulse.New(every); err == nil {
			_ = p.Close()
			t.Errorf("there is a pulse every %d ns", every)
		}
	}
	var all []*os.File
	defer func() {
		for _, f := range all {
			_ = f.Close()
		}
	}()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	few := old
	few.Cur = 64
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old) }()
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		all = append(all, f)
	}
	if _, err := pulse.New(time.Second); err == nil {
		t.Error("a pulse needs no descriptor")
	}
	const long = 8 * time.Millisecond
	if d := took(func() { pulse.NewRest(long, time.Millisecond).For(true) }); d < long {
		t.Errorf("without a descriptor a rest took %v", d)
	}
}
