package members_test

import (
	"context"
	"fmt"

	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/cluster/members"
)

// Two nodes find each other by the leases of their broker. Then one of them works out where a partition is.
func Example() {
	b := memory.New(nil)
	defer func() { _ = b.Close() }()
	ctx := context.Background()

	var directories []*members.Directory
	for _, self := range []cluster.Member{
		{ID: "hub-1", Cluster: "prod", Role: cluster.Hub, Link: "10.0.0.1:9100"},
		{ID: "gw-1", Cluster: "prod", Role: cluster.Gateway, Public: "wss://gw-1.example.com", Sessions: 900},
	} {
		d, err := members.Join(&self, members.NewLeases(b), nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer func() { _ = d.Close(ctx) }()
		directories = append(directories, d)
	}

	gateway := directories[1]
	placer, _ := cluster.NewPlacer(nil)
	watching, stop := context.WithCancel(ctx)
	_ = gateway.Watch(watching, func(set *cluster.Set) {
		if len(set.Members()) < 2 {
			return // the hub has not been heard yet
		}
		hub, err := placer.Place(set, broker.PartitionOf("quotes:ACME", 16), "")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("quotes:ACME is on", hub.ID, "at", hub.Link)
		stop()
	})
	// Output: quotes:ACME is on hub-1 at 10.0.0.1:9100
}
