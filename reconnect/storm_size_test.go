//go:build !proof

package reconnect_test

// The size of the storm test in an ordinary run.
const (
	stormClients  = 100
	stormSessions = 10
	stormRounds   = 10
	stormRequests = 20 // of each client in each round
)
