// Package pace decides when a client's subscriptions are served, where they may not be served at once: because a subscription has
// a shortest interval, or the client so many bytes a second.
//
// It is pure: it starts no goroutine, reads no clock and locks nothing. Times are nanoseconds since any moment, of a clock that never
// goes back. A [Pacer] belongs to one client; what it knows of a subscription is an [Item]. It holds nothing that is to be sent: whoever is
// served late reads its channel late, and finds what is newest then.
//
//	Add     there is something for a subscription
//	Next    whose turn it is now
//	Spend   how many bytes that took
//	Served  whether it has all there was, so that its interval begins; Passed, if there was nothing after all
//	When    at what time to ask again
//
// # Who goes first
//
// Among the subscriptions that may be served the highest priority goes first, and within a priority the one that has waited longest.
// But where somebody has waited for a second or more, every other turn is of the one that has waited longest of all: a lower priority is
// slower, never still, and has half of the turns at most.
//
// # Bytes a second
//
// The bandwidth is a virtual schedule, as in the generic cell rate algorithm (ITU-T I.371, Annex A): what is sent moves the moment at
// which all of it would be through at that rate, and while that moment lies ahead nobody has a turn. A client that was sent less than it may
// have is given what it saved, for a tenth of a second at most. So in any span of time a client gets the bandwidth times the span, a tenth
// of a second's bytes, and what the last turn took beyond its [Pacer.Room].
package pace
