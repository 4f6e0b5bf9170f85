package buffer

// Places is the memory that the queue has for places of frames.
func (q *Queue) Places() int { return cap(q.frames) * framePlace }

// Memory returns what the queue says it takes, and what it does take, but for what nobody has asked for.
func (q *Queue) Memory() (said, does int) {
	chunks := map[*Buffer]int{}
	if q.tail != nil {
		chunks[q.tail] = cap(q.tail.B)
	}
	for _, f := range q.frames[q.head:] {
		if f.From != nil {
			chunks[f.From] = cap(f.From.B)
		} else {
			does += len(f.B)
		}
	}
	for _, n := range chunks {
		does += n
	}
	return q.memory, does
}

// Held returns how much memory is held.
func (in *Inbound) Held() int { return cap(in.buf) }

// Copied has the file read, as if the kernel could not send from it.
func (l *Large) Copied() { l.copied = true }
