package carriertest_test

import (
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/pushtest/carriertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCarrier: a carrier without bugs passes, over sockets and in memory.
func TestCarrier(t *testing.T) {
	for name, way := range map[string]gateway.Way{"TwoWay": gateway.TwoWay, "OneWay": gateway.OneWay} {
		t.Run(name, func(t *testing.T) {
			h := new(planted).harness(way)
			carriertest.Run(t, h)
			for _, check := range carriertest.CheckNames(&h) {
				for _, complaint := range carriertest.Complaints(t, check, h) {
					t.Errorf("%s: %s", check, complaint)
				}
			}
		})
	}
}

// TestPlanted: each bug is found by the check that is there for it, and there is a bug for each check.
func TestPlanted(t *testing.T) {
	missing := carriertest.CheckNames(nil)
	for _, b := range bugs {
		t.Run(b.check+"/"+b.name, func(t *testing.T) {
			if found := carriertest.Complaints(t, b.check, b.harness()); len(found) == 0 {
				t.Error("the bug is not found")
			} else {
				t.Log(found[0])
			}
		})
		missing = slices.DeleteFunc(missing, func(check string) bool { return check == b.check })
	}
	for _, check := range missing {
		t.Errorf("no bug is planted for the check %s", check)
	}
}
