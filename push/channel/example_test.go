package channel_test

import (
	"fmt"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// A table of prices, and a reader that is slower than the prices change: it gets the newest price of each key, never a backlog.
func Example() {
	prices := channel.New(&channel.Policy{Mode: push.Table}, push.Position{Epoch: "today"}, 0)
	cursor, _ := prices.Subscribe(nil, nil)

	for i, price := range []string{"100", "101", "102"} {
		prices.Append(push.Publication{Offset: uint64(2*i + 1), Key: "ACME", Data: []byte(price)})
		prices.Append(push.Publication{Offset: uint64(2*i + 2), Key: "INIT", Data: []byte(price)})
	}

	budget := channel.Budget{Entries: 10, Bytes: 4096}
	deliveries, end, _ := prices.Read(cursor, nil, budget, nil)
	for _, d := range deliveries {
		fmt.Printf("%s is %s, position %d\n", d.Entry.Key, d.Entry.Data, d.Offset)
	}
	cursor = channel.Commit(cursor, deliveries, end, len(deliveries))

	prices.Append(push.Publication{Offset: 7, Key: "INIT", Op: push.Remove})
	deliveries, _, _ = prices.Read(cursor, nil, budget, nil)
	fmt.Println(deliveries[0].Entry.Key, "is gone:", deliveries[0].Kind == channel.Gone)
	// Output:
	// ACME is 102, position 5
	// INIT is 102, position 6
	// INIT is gone: true
}
