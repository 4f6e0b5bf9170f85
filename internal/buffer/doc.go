// Package buffer holds the bytes of a connection on their way: pools of memory ([Pools]), what has arrived and was not used yet
// ([Inbound]), what waits to be written ([Queue]), and what goes into one write ([Batch]). None of it knows what a session is, has a
// lock of its own but the pools, or waits for anything but [Batch.PushTo].
package buffer
