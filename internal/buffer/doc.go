// Package buffer holds the bytes of a connection between the socket and the session: pools of memory ([Pools]), bytes that have arrived and are
// not used yet ([Inbound]), frames that wait to be written ([Queue]), frames that are sent without a copy ([BigFrame]), and the argument of one
// write ([Batch]). The package knows nothing of sessions. Only the pools have locks of their own, and only [Batch.BlockingWriteTo] waits for the peer.
package buffer
