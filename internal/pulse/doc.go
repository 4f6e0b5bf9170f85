// Package pulse calls somebody when a goroutine has not been heard of for some time, or again and again while there is something to see.
//
// A time.Sleep of half a millisecond takes one and a quarter where nothing else happens (Go 1.26, Linux): timers are waited for together with
// descriptors, for whole milliseconds, and the wait begins anew whenever another thread takes it over. A timer that is a descriptor is on time.
package pulse
