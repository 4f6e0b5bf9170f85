//go:build !proof

package reconnect_test

// How much the storm is, in the ordinary run.
const (
	stormClients  = 100
	stormSessions = 10
	stormRounds   = 10
	stormRequests = 20 // of each client in each round
)
