// Package prefetch asks the processor for memory that will be needed soon, without waiting for it.
//
// A loop over thousands of connections finds each of them cold: it waits for main memory several times before every system call, and no
// later load overtakes that. Asking for what the next but one needs, before the call, hides the wait.
package prefetch
