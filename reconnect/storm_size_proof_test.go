//go:build proof

package reconnect_test

// The size of the storm test with the tag proof. It needs 12,100 descriptors, ulimit -n.
const (
	stormClients  = 200
	stormSessions = 15
	stormRounds   = 30
	stormRequests = 100
)
