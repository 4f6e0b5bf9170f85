package hub

import "github.com/sluice-push/sluice/push/channel"

// batch is what one write offers to a carrier: frames of one subscription after the other, and what becomes of the cursors when they
// are taken.
type batch struct {
	frames []Frame
	nexts  []channel.Cursor // of the subscription that a frame is for, once it is taken
	parts  []part
	bytes  int // of frames
	volley volley
	counts deliveryCounts // what was taken; it outlives clear
}

// part is one subscription's share.
type part struct {
	sub *Subscription
	to  int            // where its frames end; they begin where those of the part before it end
	end channel.Cursor // when all of them are taken

	isLate   bool             // it was read from the log
	isMore   bool             // where there is more than that
	progress channel.Progress // then that of the log; otherwise the ordinal is that of the last entry
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

// end ends the part of a subscription that gets entries right behind its cursor, up to the one with an ordinal.
func (b *batch) end(sub *Subscription, end channel.Cursor, ordinal uint64) {
	b.parts = append(b.parts, part{sub: sub, to: len(b.frames), end: end, progress: channel.Progress{Ordinal: ordinal}})
}

// endLate ends the part of a subscription that was read from its log, in which there may be more.
func (b *batch) endLate(sub *Subscription, end channel.Cursor, p channel.Progress, isMore bool) {
	b.parts = append(b.parts, part{sub: sub, to: len(b.frames), end: end, isLate: true, isMore: isMore, progress: p})
}

// commit moves the cursors as far as frames were taken, counts the publications in these, and returns the first part of which nothing
// was, if it has any frames; otherwise how many parts there are.
func (b *batch) commit(taken int) (untouched int) {
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
		b.counts.count(p, b.frames[from:max(from, min(p.to, taken))], taken >= p.to)
		if paced := p.sub.session.paced; paced != nil {
			paced.settle(p, len(b.frames[from:p.to]), b.frames[min(max(from, taken), p.to):p.to])
		}
		from = p.to
	}
	return untouched
}

// clear forgets everything but the memory.
func (b *batch) clear() {
	clear(b.frames)
	clear(b.parts)
	b.frames, b.nexts, b.parts, b.bytes = b.frames[:0], b.nexts[:0], b.parts[:0], 0
}
