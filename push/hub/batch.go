package hub

import "github.com/sluice-push/sluice/push/channel"

// batch is what one write offers to a carrier: frames of one subscription after the other, and what becomes of the cursors when they
// are taken.
type batch struct {
	frames []Frame
	nexts  []channel.Cursor // of the subscription that a frame is for, once it is taken
	parts  []part
	bytes  int // of frames
}

// part is one subscription's share.
type part struct {
	sub *Subscription
	to  int            // where its frames end; they begin where those of the part before it end
	end channel.Cursor // when all of them are taken
}

func (b *batch) add(f Frame, next channel.Cursor) {
	b.frames, b.nexts, b.bytes = append(b.frames, f), append(b.nexts, next), b.bytes+len(f.Bytes)
}

// cut takes back what was added from frame n on, to a part that is not ended.
func (b *batch) cut(n int) {
	for _, f := range b.frames[n:] {
		b.bytes -= len(f.Bytes)
	}
	clear(b.frames[n:])
	b.frames, b.nexts = b.frames[:n], b.nexts[:n]
}

// end ends the part of a subscription.
func (b *batch) end(sub *Subscription, end channel.Cursor) {
	b.parts = append(b.parts, part{sub, len(b.frames), end})
}

// commit moves the cursors as far as frames were taken, and returns the number of publications in these and the first part of which
// nothing was, if it has any frames; otherwise how many parts there are.
func (b *batch) commit(taken int) (publications, untouched int) {
	from, untouched := 0, len(b.parts)
	for i := range b.parts {
		p := &b.parts[i]
		switch {
		case taken >= p.to:
			p.sub.cursor = p.end
		case taken > from:
			p.sub.cursor = b.nexts[taken-1]
		default:
			untouched = min(untouched, i)
		}
		from = p.to
	}
	for i := range b.frames[:taken] {
		publications += b.frames[i].Publications
	}
	return publications, untouched
}

// clear forgets everything but the memory.
func (b *batch) clear() {
	clear(b.frames)
	clear(b.parts)
	b.frames, b.nexts, b.parts, b.bytes = b.frames[:0], b.nexts[:0], b.parts[:0], 0
}
