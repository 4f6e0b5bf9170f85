// Package feed is the gRPC service that bench/push compares links between gateways and hubs with. Its code is generated: see feed.proto.
package feed
