// Package inbox holds frames of commands that came in requests beside a client's connection and are not carried out yet. A frame may come in pieces,
// from another node.
package inbox

import "sync"

// Most is how many frames of one client may wait.
const Most = 1024

// Result is what became of a frame, or of a piece of one. Nodes tell it each other.
type Result string

// The results.
const (
	Taken   Result = "taken"
	Unknown Result = "unknown" // there is no such client, or the piece does not belong to the ones before it
	Full    Result = "full"
)

// Inbox has the frames of one client. The zero Inbox is ready. Its methods may be called concurrently.
type Inbox struct {
	mu      sync.Mutex // guards what follows
	frames  [][]byte
	bytes   int
	running bool // a goroutine carries out what is in frames
	closed  bool
	parts   map[question]*part
}

// Piece is a piece of a frame, or all of it.
type Piece struct {
	Node   string // from which it comes
	Number uint64 // of the frame, among those of the node
	Frame  []byte
	At     int  // where in the frame the piece begins, in bytes
	More   bool // other pieces follow
}

// question names a frame of another node.
type question struct {
	node   string
	number uint64
}

// part is the beginning of a frame that comes in pieces.
type part struct {
	frame []byte
	last  int64 // when the last piece came
}

// Bounds bound the beginnings of frames.
type Bounds struct {
	Bytes int   // of all beginnings together
	Age   int64 // after which a beginning is forgotten to which no piece has come: the node that sends it has given up
}

// Join adds a piece to its frame, and returns the frame with the last one. The time and Bounds.Age have the same unit.
func (in *Inbox) Join(p *Piece, now int64, most Bounds) (frame []byte, result Result) {
	in.mu.Lock()
	defer in.mu.Unlock()
	bytes := len(p.Frame)
	for q, begun := range in.parts {
		if now-begun.last > most.Age {
			delete(in.parts, q)
			continue
		}
		bytes += len(begun.frame)
	}
	q := question{p.Node, p.Number}
	begun := in.parts[q]
	switch {
	case in.closed || (begun == nil) != (p.At == 0) || begun != nil && p.At != len(begun.frame):
		delete(in.parts, q)
		return nil, Unknown
	case bytes > most.Bytes:
		delete(in.parts, q)
		return nil, Full
	case begun == nil:
		if in.parts == nil {
			in.parts = map[question]*part{}
		}
		begun = new(part)
		in.parts[q] = begun
	}
	begun.frame, begun.last = append(begun.frame, p.Frame...), now
	if !p.More {
		delete(in.parts, q)
	}
	return begun.frame, Taken
}

// Put adds a frame, which becomes the inbox's, unless more than so many bytes or [Most] frames would wait; a frame that is alone may be longer. begins
// reports that the caller has to start the goroutine that calls Next.
func (in *Inbox) Put(frame []byte, most int) (taken, begins bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return true, false // as if it had come a bit later than the end
	}
	if len(in.frames) >= Most || len(in.frames) > 0 && in.bytes+len(frame) > most {
		return false, false
	}
	in.frames = append(in.frames, frame)
	in.bytes += len(frame)
	begins = !in.running
	in.running = true
	return true, begins
}

// Next returns the next frame, nil if there is none: then the goroutine is to end.
func (in *Inbox) Next() []byte {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.frames) == 0 {
		in.frames, in.running = nil, false
		return nil
	}
	frame := in.frames[0]
	in.frames = in.frames[1:]
	in.bytes -= len(frame)
	return frame
}

// Close forgets all frames. What comes later is taken and forgotten.
func (in *Inbox) Close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed, in.frames, in.bytes, in.parts = true, nil, 0, nil
}
