// Package workerpool runs tasks on goroutines that are there already: in the order of a key or in any order, with bounded queues, and a
// policy for when they are full.
//
//	e := workerpool.NewStrand(nil)
//	err := e.Submit(sessionID, func() { … }) // after all that was submitted for this session before
//	…
//	err = e.Shutdown(ctx) // runs what was accepted
package workerpool
