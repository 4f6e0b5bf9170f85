package broker_test

import (
	"fmt"
	"testing"

	"github.com/sluice-push/sluice/push/broker"
)

func ExamplePartitionOf() {
	fmt.Println(broker.PartitionOf("quotes:ACME", 1))
	fmt.Println(broker.PartitionOf("quotes:ACME", 16))
	// Output:
	// {quotes 0}
	// {quotes 4}
}

// TestPartitionOf: the partition of a channel never changes, because stored channels would otherwise be looked for in the wrong place. Channels
// are spread evenly.
func TestPartitionOf(t *testing.T) {
	for name, want := range map[string]int{"": 5, "a": 12, "b": 5, "quotes:ACME": 4, "ticks:BTCUSDT": 4} {
		if got := broker.PartitionOf(name, 16).Index; got != want {
			t.Errorf("%q is in partition %d, was in %d", name, got, want)
		}
	}
	const channels, partitions = 16_000, 16
	var count [partitions]int
	for i := range channels {
		p := broker.PartitionOf(fmt.Sprintf("ns:%d", i), partitions)
		if p.Namespace != "ns" {
			t.Fatalf("namespace %q", p.Namespace)
		}
		count[p.Index]++
	}
	for i, n := range count {
		if n < channels/partitions*3/4 || n > channels/partitions*5/4 {
			t.Errorf("partition %d has %d of %d channels", i, n, channels)
		}
	}
}
