// Package reconnect keeps sessions of a client alive: a [Pool] holds N of them to one address or spread over many, dials again what
// was lost, and says which one to use.
//
//	client := session.NewClient(codec.Length{}, nil, nil)
//	pool, err := reconnect.New(client, &reconnect.Options{Addresses: []string{"a:7000", "b:7000"}, Sessions: 4, Handler: h})
//	err = pool.Wait(ctx, 1) // starts it
//	err = pool.Send("", msg)
//
// Many pools may share one [session.Client], and with it its event loops. Close the pools before the client: a pool whose client is
// closed gives up.
//
// A WebSocket client is kept alive likewise: Options.DialSession is its DialSession, and the Value of each session its *websocket.Conn.
//
// # The life of a slot
//
// Each of the N places is a slot. It has at most one session at a time, and goes these ways, which [Options].State is told of:
//
//	             ┌───────────────────────────────────────────────────────────┐
//	             ▼                                                           │
//	start ─► Connecting ──► Open ──► BackingOff ─── a random time later ─────┘
//	             │            │          ▲
//	             └── failed ──┼──────────┘
//	                          └──► Draining, until nobody needs the session
//
// From everywhere it may go to Closed, when the pool ends it: [Pool.Close], [Pool.Shutdown], or [Pool.SetAddresses] without its address;
// and instead of backing off to Failed, when it gives up after Options.MaxAttempts, or because the client is closed. These two
// are the last.
//
// A slot dials again when its session has quite ended and Close of its handler has returned. So it notices what the session
// notices, and no more: silence is an end only with an IdleTimeout, or a Tick that asks.
//
// There is no goroutine that watches over all this. While sessions are open the pool has none at all: the dying session's own work
// arranges what comes next, a timer lets the time pass, and a goroutine exists only while something is dialed and resumed, or says
// goodbye.
//
// # Back-off
//
// Before each new attempt a slot waits a time between zero and min(Cap, Base·2ⁿ), at random: full jitter, as in "Exponential Backoff And
// Jitter" (Brooker, AWS Architecture Blog, 2015), so that clients that were cut off together do not come back together. That holds also
// after an end in order: a server that is restarted says goodbye to everybody at once. The exponent goes back to zero only
// when a session has proved itself, by staying open for Options.Proven: a server that accepts and closes at once is not hammered.
//
// # Resuming
//
// Options.Resume runs when a session is open and before anybody is given it: the place to log in, to subscribe again, to send again what
// was not acknowledged. It runs on the goroutine that dialed, not on the session's turn. So it may wait for answers: meanwhile
// the session's handler is called with messages as ever, or, for a handler that says Pull, Resume may call Receive itself. Afterwards the
// session may be picked, and then State is told.
//
// A session whose messages are received notices that its peer has left only while somebody receives: after Resume somebody has to go
// on, for example a goroutine that is started when State is told Open.
//
// # Which session
//
// [Pool.Pick] and [Pool.Acquire] choose among the sessions that are open, by one of three policies: in turn, the one with the fewest
// leases, or by key. They never block.
package reconnect
