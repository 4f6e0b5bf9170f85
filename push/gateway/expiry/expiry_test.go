package expiry_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-push/sluice/push/gateway/expiry"
)

// What ends first is known, and is due at its time.
func Example() {
	var e expiry.Ends
	e.SetConnection(100)
	e.Set("news", 50)
	fmt.Println(e.Next())
	connection, channels := e.Due(60)
	fmt.Println(connection, channels, e.Next())
	// Output:
	// 50
	// false [news] 100
}

// A subscription that is due is forgotten, a connection is not; what is set to never does not end.
func TestDue(t *testing.T) {
	var e expiry.Ends
	if connection, channels := e.Due(1 << 60); connection || channels != nil || e.Next() != 0 {
		t.Errorf("of nothing: %v, %v, %d", connection, channels, e.Next())
	}
	e.SetConnection(10)
	for i, name := range []string{"a", "b", "c"} {
		e.Set(name, int64(i+5))
	}
	e.Set("b", 0)
	e.Set("d", 0)
	connection, channels := e.Due(10)
	slices.Sort(channels)
	if !connection || !slices.Equal(channels, []string{"a", "c"}) {
		t.Errorf("%v, %v", connection, channels)
	}
	if connection, channels = e.Due(10); !connection || channels != nil {
		t.Errorf("again: %v, %v", connection, channels)
	}
	e.SetConnection(0)
	if connection, _ = e.Due(10); connection || e.Next() != 0 {
		t.Errorf("never: %v, %d", connection, e.Next())
	}
}

func TestSooner(t *testing.T) {
	for _, tt := range [][3]int64{{0, 0, 0}, {1, 0, 1}, {0, 1, 1}, {1, 2, 1}, {2, 1, 1}} {
		if got := expiry.Sooner(tt[0], tt[1]); got != tt[2] {
			t.Errorf("of %d and %d: %d", tt[0], tt[1], got)
		}
	}
}
