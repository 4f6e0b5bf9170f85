// Package pace limits the rate of deliveries to one client. It decides when each of the client's subscriptions is served, if a subscription has
// a shortest interval or the client a bandwidth.
//
// The package is pure: it starts no goroutine, reads no clock and takes no locks. Times are nanoseconds since any moment, of a clock that never
// goes back. A [Pacer] belongs to one client, and an [Item] is its state of one subscription. The Pacer holds no data to send: a subscription
// that is served late reads its channel late, and gets the newest entries then.
//
//	Add       a subscription has something to send
//	Next      returns the subscription to serve now
//	Consume   counts the bytes that were sent
//	Served    ends the service of an item, and begins the interval if everything was sent; Skipped ends it if there was nothing to send
//	NextTime  returns the time for the next call of Next
//
// # Order
//
// Among the subscriptions that may be served, the highest priority goes first, and within a priority the one that has waited longest. If a
// subscription has waited for a second or more, every other turn goes to the one that has waited longest of all. So a lower priority is slower
// but never starves, and takes at most half of the turns.
//
// # Bytes a second
//
// The bandwidth is a virtual schedule, as in the generic cell rate algorithm (ITU-T I.371, Annex A). Sent bytes move the time at which all of
// them are through at that rate. While that time is in the future, no subscription has a turn. A client that was sent less than its bandwidth
// may use the rest later, up to a tenth of a second's worth. So in any span of time a client gets at most the bandwidth times the span, plus a
// tenth of a second's bytes, plus the bytes of the last turn beyond its [Pacer.Available].
package pace
