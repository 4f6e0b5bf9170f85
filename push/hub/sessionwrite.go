package hub

import "github.com/sluice-push/sluice/push/channel"

// sessionWrite collects the frames of one write to a carrier, subscription by subscription, and the cursors that the subscriptions have once
// their frames are taken.
type sessionWrite struct {
	frames   []Frame
	nexts    []channel.Cursor // by frame: the subscription's cursor once the frame is taken
	shares   []share
	bytes    int            // size of frames
	together sharedWrite    // memory of fanout.serveChunk
	counts   deliveryCounts // counts of taken frames; clear keeps them
}

// share is one subscription's part of a write.
type share struct {
	sub *Subscription
	to  int            // index behind its last frame; its first frame follows the share before
	end channel.Cursor // the cursor once all its frames are taken

	fromLog  bool             // its frames were read from the log
	isMore   bool             // the log has more entries for it
	progress channel.Progress // if fromLog, of the log; otherwise its ordinal is that of the last entry
}

func (w *sessionWrite) add(f Frame, next channel.Cursor) {
	w.frames, w.nexts, w.bytes = append(w.frames, f), append(w.nexts, next), w.bytes+len(f.Bytes)
}

// truncate removes the frames from n on. They must belong to a share that is not ended.
func (w *sessionWrite) truncate(n int) {
	for _, f := range w.frames[n:] {
		w.bytes -= len(f.Bytes)
	}
	clear(w.frames[n:])
	w.frames, w.nexts = w.frames[:n], w.nexts[:n]
}

// end ends the share of a subscription that gets the entries of a scan. ordinal is that of the last entry.
func (w *sessionWrite) end(sub *Subscription, end channel.Cursor, ordinal uint64) {
	w.shares = append(w.shares, share{sub: sub, to: len(w.frames), end: end, progress: channel.Progress{Ordinal: ordinal}})
}

// endFromLog ends the share of a subscription whose frames were read from its log. isMore says that the log has more.
func (w *sessionWrite) endFromLog(sub *Subscription, end channel.Cursor, p channel.Progress, isMore bool) {
	w.shares = append(w.shares, share{sub: sub, to: len(w.frames), end: end, fromLog: true, isMore: isMore, progress: p})
}

// commit moves the cursors past the taken frames, and counts the publications in these. It returns the index of the first share that has frames
// of which none was taken, or the number of shares if there is none.
func (w *sessionWrite) commit(taken int) (unwritten int) {
	from, unwritten := 0, len(w.shares)
	for i := range w.shares {
		p := &w.shares[i]
		switch {
		case taken >= p.to:
			p.sub.cursor = p.end
		case taken > from:
			p.sub.cursor = w.nexts[taken-1]
		default:
			unwritten = min(unwritten, i)
		}
		w.counts.count(p, w.frames[from:max(from, min(p.to, taken))], taken >= p.to)
		if paced := p.sub.session.paced; paced != nil {
			paced.settle(p, len(w.frames[from:p.to]), w.frames[min(max(from, taken), p.to):p.to])
		}
		from = p.to
	}
	return unwritten
}

// clear empties the write and keeps its memory.
func (w *sessionWrite) clear() {
	clear(w.frames)
	clear(w.shares)
	w.frames, w.nexts, w.shares, w.bytes = w.frames[:0], w.nexts[:0], w.shares[:0], 0
}
