package counters_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub/counters"
)

func Example() {
	var c counters.Counters
	c.Received.Add(3)
	c.CountLost(2)
	c.CountLost(-1)
	all := c.Read()
	fmt.Println(all.Received, all.Lost, all.LostUnknown)
	// Output: 3 2 1
}

func TestSubscribe(t *testing.T) {
	for _, tt := range []struct {
		name    string
		joins   bool
		outcome channel.Outcome
		fresh   counters.Freshness
		want    counters.Counts
	}{
		{"from nothing", false, channel.Fresh, counters.FromNothing, counters.Counts{New: 1}},
		{"resumed", false, channel.Resumed, counters.FromNothing, counters.Counts{Recovered: 1}},
		{"another epoch", false, channel.Fresh, counters.OtherEpoch, counters.Counts{FreshEpoch: 1}},
		{"too old", false, channel.Fresh, counters.BelowFloor, counters.Counts{FreshFloor: 1}},
		{"unknown position", false, channel.Fresh, counters.AboveHead, counters.Counts{FreshAhead: 1}},
		{"rows were read", true, channel.Resumed, counters.FromNothing, counters.Counts{New: 1}},
		{"rows have to be read again", true, channel.Fresh, counters.BelowFloor, counters.Counts{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c counters.Counters
			c.CountSubscribe(tt.joins, tt.outcome, tt.fresh)
			if got := c.Read(); got != tt.want {
				t.Errorf("counted %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestFreshness(t *testing.T) {
	at := push.Position{Epoch: "e", Offset: 10}
	for _, tt := range []struct {
		name   string
		asked  *push.Position
		isVoid bool
		want   counters.Freshness
	}{
		{"no position", nil, false, counters.FromNothing},
		{"another epoch", &push.Position{Epoch: "f", Offset: 1}, true, counters.OtherEpoch},
		{"unknown", &push.Position{Epoch: "e", Offset: 12}, true, counters.AboveHead},
		{"no offset", &push.Position{Epoch: "e", Offset: push.MaxOffset + 1}, false, counters.AboveHead},
		{"too old", &push.Position{Epoch: "e", Offset: 1}, false, counters.BelowFloor},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := counters.FreshnessOf(tt.asked, at, tt.isVoid); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// Add adds every field.
func TestAdd(t *testing.T) {
	var one, sum counters.Counts
	fields := reflect.ValueOf(&one).Elem()
	for i := range fields.NumField() {
		if f := fields.Field(i); f.CanUint() {
			f.SetUint(uint64(i + 1))
		} else {
			f.SetInt(int64(i + 1))
		}
	}
	sum.Add(&one)
	if sum != one {
		t.Errorf("the sum is %+v, want %+v", sum, one)
	}
}
