// Package lookout has a goroutine wait in the runtime's poller for a socket that somebody else has in an interest list of its own.
package lookout
