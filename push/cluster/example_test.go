package cluster_test

import (
	"fmt"
	"net/netip"

	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/cluster"
)

// Two hubs and three gateways, one of them for traders only. Clients in 10.0.0.0/8 get gateways in zone a first.
func Example() {
	set, err := cluster.NewSet("prod", []cluster.Member{
		{ID: "hub-1", Cluster: "prod", Role: cluster.Hub, Link: "10.0.0.1:9100"},
		{ID: "hub-2", Cluster: "prod", Role: cluster.Hub, Link: "10.0.0.2:9100"},
		{ID: "gw-1", Cluster: "prod", Role: cluster.Gateway, Public: "wss://gw-1.example.com", Labels: map[string]string{"zone": "a"}, Sessions: 900},
		{ID: "gw-2", Cluster: "prod", Role: cluster.Gateway, Public: "wss://gw-2.example.com", Labels: map[string]string{"zone": "b"}, Sessions: 850},
		{ID: "gw-3", Cluster: "prod", Role: cluster.Gateway, Public: "wss://gw-3.example.com", Labels: map[string]string{"zone": "a", "tier": "trader"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	placer, _ := cluster.NewPlacer(nil)
	hub, err := placer.Place(set, broker.PartitionOf("quotes:ACME", 16), "")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("quotes:ACME is on", hub.ID)

	router, err := cluster.NewRouter(&cluster.Rules{
		Require: []cluster.Require{{Name: "traders", Labels: cluster.Labels{"tier": "{tier}"}}},
		Prefer: []cluster.Prefer{{
			Name: "near", When: cluster.When{Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, Order: []cluster.Labels{{"zone": "a"}},
		}},
		Policy: cluster.ByUser,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &cluster.Client{User: "ann", Addr: netip.MustParseAddr("10.1.2.3")}
	gateways, err := router.Route(nil, set, client)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, gateway := range gateways {
		fmt.Println("ann connects to", gateway.Public)
	}
	explanation := router.Explain(set, client)
	fmt.Print(explanation.String())
	// Output:
	// quotes:ACME is on hub-1
	// ann connects to wss://gw-1.example.com
	// ann connects to wss://gw-2.example.com
	// gateways for the user "ann", address 10.1.2.3
	//   gateways           all nodes with the role gateway or all and a public URL
	//                      → 3: gw-1, gw-2, gw-3
	//   require "traders"  is for all clients: gateways must have no tier
	//                      → 2: gw-1, gw-2
	//   prefer "near"      is for clients with an address in [10.0.0.0/8]: first zone=a, then all others
	//                      → 2: gw-1, gw-2
	//   user               the best hash of the user, by weight
	//                      → 2: gw-1, gw-2
	//   overflow           no gateway is draining, full or over its bound
	//                      → 2: gw-1, gw-2
	//   addresses          a client is told 3
	//                      → 2: gw-1, gw-2
	// result: gw-1, gw-2
}
