// Package reconnect keeps the sessions of a client alive. A [Pool] holds N sessions to one or more addresses, dials again if a session is lost,
// and chooses a session for each message.
//
//	client := session.NewClient(codec.Length{}, nil, nil)
//	pool, err := reconnect.New(client, &reconnect.Options{Addresses: []string{"a:7000", "b:7000"}, Sessions: 4, Handler: h})
//	err = pool.Wait(ctx, 1) // starts the pool and waits for one session
//	err = pool.Send("", msg)
//
// Many pools may share one [session.Client], and with it its event loops. Close the pools before the client: a pool whose client is closed gives
// up.
//
// WebSocket sessions are kept alive in the same way: set Options.DialSession to the DialSession of a WebSocket client. The Value of each session
// is then its *websocket.Conn.
//
// # The life of a slot
//
// A slot is the place of one of the N sessions. It has at most one session at a time. It changes its state as follows, and reports each change
// to [Options].State:
//
//	             ┌───────────────────────────────────────────────────────────┐
//	             ▼                                                           │
//	start ─► Connecting ──► Open ──► BackingOff ─── a random time later ─────┘
//	             │            │          ▲
//	             └── failed ──┼──────────┘
//	                          └──► Draining, until no lease of the session is left
//
// From every state a slot may go to Closed, if the pool ends it: by [Pool.Close], by [Pool.Shutdown], or by [Pool.SetAddresses] without its
// address. Instead of backing off it goes to Failed, if it gives up after Options.MaxAttempts or because the client is closed. Closed and Failed
// are final.
//
// A slot dials again after its session has ended completely and Close of its handler has returned. A slot detects only what the session detects:
// silence ends a session only with an IdleTimeout, or a Tick that asks the peer.
//
// No goroutine supervises the slots. While all sessions are open, the pool has no goroutine. The end of a session schedules the next attempt, a
// timer waits for it, and a goroutine exists only while a session is dialed and resumed, or while it drains.
//
// # Back-off
//
// Before each new attempt a slot waits a random time between zero and min(Cap, Base·2ⁿ). This is full jitter, as in "Exponential Backoff And
// Jitter" (Brooker, AWS Architecture Blog, 2015): clients that were cut off together do not come back together. The wait also follows an end in
// order, because a restarting server ends all its sessions at once. The exponent returns to zero only after a session has stayed open for
// Options.StableAfter. Otherwise a server that accepts and closes at once would be dialed without pause.
//
// # Resuming
//
// Options.Resume runs after a session has opened and before the pool hands it out. It is the place to log in, to subscribe again, and to send
// unacknowledged messages again. It runs on the goroutine that dialed, not in a callback of the session, so it may wait for answers. Meanwhile
// the session's handler receives messages as usual. If the handler says Pull, Resume may call Receive itself. After Resume has returned, the
// session may be picked, and then State is called.
//
// A session with Pull detects the end of its peer only while a goroutine is in Receive. After Resume, the program must therefore keep receiving,
// for example in a goroutine that it starts when State reports Open.
//
// # Which session
//
// [Pool.Pick] and [Pool.Acquire] choose among the open sessions, by one of three policies: in turn, by the fewest leases, or by key. They never
// block.
package reconnect
