package session

import (
	"slices"

	"github.com/sluice-push/sluice/internal/buffer"
)

// Batched writes to many sessions. When a frame goes to thousands of sessions, the memory of each session is not in the cache, and neither is
// the code between two system calls, because the kernel has run since. So sessions are written in batches. First the Writers of up to 64
// sessions enter the Writing state, then all system calls follow with no other code in between, then the Writers leave the state. No lock is
// held meanwhile. If another goroutine sends to one of these sessions, its frame is queued, and the batch writes it at the end.

// batchSize is how many sessions are in the Writing state at a time. It bounds for how long they are, because other frames for them wait
// meanwhile.
const batchSize = 64

// SendItem is one message for one session in a call of [SendAll].
type SendItem struct {
	Session *Session
	As      Encoder // the encoder, as in [Session.SendAs]; nil is the session's codec
	Msg     []byte  // borrowed until SendAll returns
	Err     error   // result: what SendAs would have returned
}

// SendAll sends a message to each of many sessions, as [Session.SendAs] does. If a session is on an event loop and has nothing else to write,
// that takes less time than a call of SendAs. Each session should occur once; the sessions may belong to several servers. If an encoder is a
// [Prefixer] and has no header, its messages are written without being copied. Under the Wait policy SendAll waits for the sessions one after
// the other. Any number of goroutines may call it.
func SendAll(items []SendItem) {
	var b sendBatch
	for chunk := range slices.Chunk(items, batchSize) {
		b.send(chunk)
	}
}

// Offer is one frame for one session in a call of [TryWriteAll].
type Offer struct {
	Session *Session
	Frame   []byte // as in [Session.TryWrite]: it must never be changed
	Taken   bool   // result: whether TryWrite would have returned 1

	begun bool // the session is in the Writing state
	n     int
	err   error
}

// TryWriteAll offers one frame to each of many sessions, as [Session.TryWrite] does. If a session is on an event loop and has nothing else to
// write, that takes less time than a call of TryWrite. If a session has not taken its frame and has not ended, its Writable is called later. If
// a session occurs several times, its frames are offered in order. Any number of goroutines may call TryWriteAll.
func TryWriteAll(offers []Offer) {
	for len(offers) > 0 { // slices.Chunk would move the caller's array to the heap
		n := min(len(offers), batchSize)
		tryBatch(offers[:n])
		offers = offers[n:]
	}
}

// tryBatch does the work of TryWriteAll for one batch.
func tryBatch(offers []Offer) {
	for i := range offers {
		o := &offers[i]
		o.begun = o.Session.packet == nil && o.Session.out.BeginSingle(len(o.Frame))
	}
	for i := range offers {
		if o := &offers[i]; o.begun {
			o.n, o.err = o.Session.out.WriteSingle(o.Frame)
		}
	}
	others := false
	for i := range offers {
		if o := &offers[i]; o.begun {
			o.Taken = o.Session.out.EndTry(o.Frame, o.n, o.err)
		} else {
			others = true
		}
	}
	if !others {
		return
	}
	for i := range offers { // no session is in the Writing state any more: over datagrams these calls may wait
		if o := &offers[i]; !o.begun {
			taken, _ := o.Session.TryWrite([][]byte{o.Frame})
			o.Taken = taken == 1
		}
	}
}

// sendBatch holds a frame for each of several sessions in the Writing state.
type sendBatch struct {
	n       int
	entries [batchSize]batchEntry
}

type batchEntry struct {
	item  *SendItem
	frame []byte
	n     int // how much of it was written
	err   error
}

// send sends items, of which there are at most batchSize. If an encoder panics, no session stays in the Writing state.
func (b *sendBatch) send(items []SendItem) {
	pools := items[0].Session.srv.pools
	mem := pools.Batch()
	defer func() {
		b.flush()
		mem.Scratch = mem.Scratch[:0]
		pools.PutBatch(mem)
	}()
	for i := range items {
		items[i].Err = b.add(&items[i], mem)
	}
}

// add adds the frame of an item to the batch. If its session has something else to write, add sends the message at once. Encoded frames lie in
// mem.
func (b *sendBatch) add(item *SendItem, mem *buffer.Batch) error {
	s := item.Session
	if s.packet != nil {
		b.flush() // the call may wait, and no session may be in the Writing state meanwhile
		return s.SendAs(item.As, item.Msg)
	}
	frame, begun, err := s.out.EncodeSingle(item.As, mem, item.Msg)
	switch {
	case err != nil:
		return err
	case !begun:
		b.flush() // likewise
		return s.SendAs(item.As, item.Msg)
	case len(frame) > 0:
		b.entries[b.n] = batchEntry{item: item, frame: frame}
		b.n++
	}
	return nil
}

// flush writes the frames of the batch.
func (b *sendBatch) flush() {
	items := b.entries[:b.n]
	for i := range items {
		items[i].n, items[i].err = items[i].item.Session.out.WriteSingle(items[i].frame)
	}
	for i := range items {
		items[i].item.Err = items[i].item.Session.out.EndSend(items[i].frame, items[i].n, items[i].err)
	}
	clear(items)
	b.n = 0
}
