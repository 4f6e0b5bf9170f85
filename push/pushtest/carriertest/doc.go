// Package carriertest provides the conformance suite for carriers: the ways in which clients are connected to a gateway, each in each form of the
// protocol.
//
// # Testing a carrier
//
// The author of a carrier writes one test for each form:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
//
//	func TestConformance(t *testing.T) {
//		carriertest.Run(t, carriertest.Harness{Transport: mycarrier.New, Form: carriertest.JSON, Way: gateway.TwoWay, Dial: dial})
//	}
//
// Transport makes the server's side. Dial makes the client's side, a [Conn] that moves frames and knows nothing of what is in them. For clients
// that listen to the body of an HTTP response, [HTTPStream] has a Dial. The suite makes everything else: the network connections, the broker, one
// or two nodes with channels of all kinds, and all commands. It encodes commands and decodes replies with the packages of the forms.
//
// Each check is a subtest with nodes of its own. Most run over TCP on loopback, with small buffers, so that a client that does not read is soon
// noticed. Checks in which time has to pass run over connections in memory in a bubble of testing/synctest, unless Harness.RealTime is set.
// [Patience] bounds each check. Run the suite with the race detector.
//
// # What a carrier has to do
//
// Package gateway specifies it. A check is left out if it needs what the carrier's clients cannot do: those of one-way carriers send no commands.
// Where carriers may differ, the suite is lenient: a connect request of a one-way client may be refused by an HTTP status or by a disconnect, and
// a frame that is too large may be refused or end the connection, with any code. It is counted once in any case.
package carriertest
