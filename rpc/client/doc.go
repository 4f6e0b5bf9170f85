// Package client makes calls to a service: to many servers that come and go.
//
//	c := client.New(discovery.NewSteady(registry, nil), "quotes", &client.Options{Balance: &balance.Options{Zone: "eu-1"}})
//	var out Answer
//	err := c.Call(ctx, "Greet", &Question{"ann"}, &out)
//
// # Servers and connections
//
// A resolver of package discovery says which servers there are. The client connects to each of them at once, and again when a connection has ended, after
// a random time that grows with each failure. Package rpc/balance chooses among the servers that are connected.
//
//	resolver ─► set of servers ─► connections ─► connected servers ─► choice ─► call
//
// A server that has left the set gets no new calls. Its connections stay for Options.Linger, and are used again if it returns; then they end when
// their calls have ended. A connection whose server is about to stop is replaced, gets no new calls, and ends with its calls. So a server that leaves the
// registry and then stops with [rpc.Server.Shutdown] loses no call.
//
// Each connection has a goroutine, which reads. Another one runs for each server that is being dialed, for each connection that ends while calls are
// under way, and for the resolver.
//
// # Calls
//
// A call that has failed is made again if that does no harm, at another server as far as there is one:
//
//	how it has failed                                 made again         counts against the server
//	its connection was about to close, nothing sent   always             no
//	Overloaded, Unavailable: not begun                at another server  yes
//	Overloaded: too many calls wait, nothing sent     at another server  no
//	Lost: may have been handled                       if idempotent      yes
//	Canceled by the server, which closes              if idempotent      no
//	DeadlineExceeded                                  no                 yes
//	Canceled by the caller                            no                 no
//	any other error: of the method                    no                 no, the server works
//
// A call is sent at most Options.MaxAttempts times, and Options.Budget has to allow every attempt after the first. The codes of the errors decide. So
// a handler must not return [rpc.Unavailable] or [rpc.Overloaded] of a call that it has made itself: see package rpc.
//
// While no server is connected, calls wait for one, for Options.WaitTimeout and as long as their contexts allow. The restart of a service with one server
// is then a delay and not an error, and a service that is away for long does not keep its callers for ever.
//
// Each call has one answer. A stream needs an [rpc.Conn], which the program dials itself.
//
// With the policy ByKey, a key whose server is not connected is another server's for that time.
package client
