// Package writer is the write path of a connection: which goroutine may write to it and when, what happens to frames for which there is no
// room, and how many frames leave in one system call.
//
// # States
//
// Any goroutine may send. A [Writer] is in one of three states, and the state determines which goroutine writes:
//
//	Idle          No frame waits and no write is running. The next sender writes.
//	Writing       A goroutine is inside a write that does not block, without holding the lock. Other senders queue their frames.
//	WaitWritable  The connection has no room, or cannot be written without blocking. The engine that runs the connection writes the
//	              queue: an event loop when there is room, a helper goroutine with writes that block. Senders queue their frames.
//
// The transitions:
//
//	Idle → Writing          A sender finds the Writer idle and writes from its own stack.
//	Writing → Idle          The frame and everything that was queued meanwhile has been written.
//	Writing → WaitWritable  The connection took less than was offered.
//	Idle → WaitWritable     A frame was queued for a connection that can only be written by its engine.
//	WaitWritable → Writing  An event loop writes a part of the queue: WriteQueue. A helper goroutine (Next, Done) leaves the state as it is.
//	WaitWritable → Idle     The engine has written everything, or the Writer was aborted.
//
// The goroutine that leaves the Writing state first writes what others have queued, so some goroutine or the engine always takes care of
// a frame that waits. So that one sender does not write on behalf of others for ever, it hands the queue to the engine after 16 writes.
//
// # The lock
//
// A Writer embeds the mutex of its connection, which guards the Writer and whatever its owner guards with it. Methods are called without the
// lock unless their comment says "The lock is held". Those return with the lock held, but may release it meanwhile to write.
//
// # Life
//
// A Writer accepts frames until Finish or Abort. Finish accepts a last frame, and tells the owner (Drained) when everything has been
// written. Abort drops what waits. Release, at the end, returns all memory.
package writer
