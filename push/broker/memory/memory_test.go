package memory_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/pushtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConformance runs the suite that every broker has to pass, on a clock that is moved by hand.
func TestConformance(t *testing.T) {
	pushtest.RunBroker(t, func(*testing.T) pushtest.Harness {
		clock := pushtest.NewClock(time.Unix(1_700_000_000, 0))
		open := func() broker.Broker {
			return memory.New(&memory.Options{
				Now:            clock.Now,
				MaxPublication: 100_000,
				Queue:          32,
				PublishWait:    time.Second,
			})
		}
		return pushtest.Harness{Broker: open(), MaxPublication: 100_000, Advance: clock.Advance, Recreate: open}
	})
}

// TestConformanceRealTime runs the suite without any of the harness's abilities.
func TestConformanceRealTime(t *testing.T) {
	pushtest.RunBroker(t, func(*testing.T) pushtest.Harness {
		return pushtest.Harness{Broker: memory.New(&memory.Options{
			MaxPublication: -1,
			Queue:          32,
			PublishWait:    time.Second,
		})}
	})
}
