package discovery_test

import (
	"context"
	"fmt"

	"github.com/sluice-push/sluice/discovery"
)

// A server is found while it is registered.
func ExampleMemory() {
	var registry discovery.Memory
	ctx, cancel := context.WithCancel(context.Background())
	server, _ := registry.Register(ctx, "quotes", discovery.Endpoint{Address: "10.0.0.1:7000", Zone: "b"})
	_ = registry.Watch(ctx, "quotes", func(set []discovery.Endpoint) {
		fmt.Println(len(set), "servers")
		if len(set) == 0 {
			cancel()
		}
		_ = server.Close(ctx) // before the server stops
	})
	// Output:
	// 1 servers
	// 0 servers
}
