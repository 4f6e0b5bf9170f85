// Package pulse wakes a goroutine at short and even intervals, or when another one has not been heard of for some time.
//
// A time.Sleep of half a millisecond takes one and a quarter where nothing else happens (Go 1.26, Linux): timers are waited for together with
// descriptors, for whole milliseconds, and the wait begins anew whenever another thread takes it over. A timer that is a descriptor is on time.
package pulse
