package buffer

// Places returns the bytes of memory that the queue has for its frames' places.
func (q *Queue) Places() int { return cap(q.frames) * framePlace }

// Memory returns the bytes of memory that the queue counts, and those of its chunks and of the frames outside them. The second number does not
// contain the spare capacity of such frames.
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

// Held returns how many bytes of memory the Inbound holds.
func (in *Inbound) Held() int { return cap(in.buf) }

// Copied makes the frame read its file, as if the kernel could not send from it.
func (l *BigFrame) Copied() { l.copied = true }
