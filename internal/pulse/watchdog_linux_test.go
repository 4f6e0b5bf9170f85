package pulse_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/pulse"
	"github.com/sluice-push/sluice/internal/testwait"
)

// kennel is a watchdog and whom it calls.
type kennel struct {
	dog     *pulse.Watchdog
	resting atomic.Bool
	asked   chan struct{} // after each question whether the goroutine rests
	barks   chan struct{}
}

func newKennel(t *testing.T, patience time.Duration) *kennel {
	dog, err := pulse.NewWatchdog(patience)
	if err != nil {
		t.Fatal(err)
	}
	k := &kennel{dog: dog, asked: make(chan struct{}, 1), barks: make(chan struct{})}
	var ended sync.WaitGroup
	ended.Go(func() {
		dog.Run(func() bool {
			defer func() {
				select {
				case k.asked <- struct{}{}:
				default:
				}
			}()
			return k.resting.Load()
		}, func() { k.barks <- struct{}{} })
	})
	t.Cleanup(func() {
		if err := dog.Close(); err != nil {
			t.Error(err)
		}
		testwait.Return(t, ended.Wait)
	})
	return k
}

// It barks once after each time that it was not heard of the goroutine, never too early, and is quiet when told.
func TestWatchdogBarks(t *testing.T) {
	const patience = 2 * time.Millisecond
	k := newKennel(t, patience)
	began := time.Now()
	for i := range 3 {
		said := time.Now()
		k.dog.Alive(int64(time.Since(began)))
		testwait.Receive(t, k.barks)
		if waited := time.Since(said); waited < patience*3/2 {
			t.Errorf("round %d: it barked after %v", i, waited)
		}
		if !k.dog.Barked() || !k.dog.Quiet() || k.dog.Barked() || k.dog.Quiet() {
			t.Errorf("round %d: what it says does not agree with what it did", i)
		}
	}
}

// As long as the goroutine says that it gets on there is no bark; by a clock of the test's own, since the goroutine may not be run for long.
func TestWatchdogIsPutOff(t *testing.T) {
	const patience = time.Hour
	k := newKennel(t, patience)
	for now := int64(0); now < int64(10*patience); now += int64(patience / 3) {
		k.dog.Alive(now)
	}
	if k.dog.Barked() {
		t.Error("it barked")
	}
}

// Of one that rests nothing is heard; when it has worked again, and rests no more, it is.
func TestWatchdogLetsRest(t *testing.T) {
	k := newKennel(t, time.Millisecond)
	k.resting.Store(true)
	k.dog.Alive(0)
	testwait.Receive(t, k.asked)
	if k.dog.Barked() {
		t.Error("it barked at one that rests")
	}
	k.resting.Store(false)
	k.dog.Alive(1) // long before its patience ends: the timer has run out, so it is set all the same
	testwait.Receive(t, k.barks)
}
