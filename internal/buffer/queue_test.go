package buffer_test

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/internal/buffer"
)

// modelFrame is a frame in the trivially simple queue that the test compares with the real one.
type modelFrame struct {
	b             []byte
	at            int64
	kept, started bool
}

type queueModel struct {
	frames   []modelFrame
	inFlight int
}

func (m *queueModel) bytes() (all []byte) {
	for _, f := range m.frames {
		all = append(all, f.b...)
	}
	return all
}

func (m *queueModel) written(n int) {
	for m.inFlight = 0; n > 0; {
		f := &m.frames[0]
		if n < len(f.b) {
			f.b, f.started = f.b[n:], true
			return
		}
		n -= len(f.b)
		m.frames = m.frames[1:]
	}
}

func (m *queueModel) full(size int, now int64, b [3]int) bool {
	if len(m.frames) == 0 {
		return false
	}
	if len(m.bytes())+size > b[0] || len(m.frames) >= b[1] {
		return true
	}
	for i, f := range m.frames {
		if i >= m.inFlight && !f.started {
			return b[2] > 0 && now-f.at > int64(b[2])
		}
	}
	return false
}

func (m *queueModel) makeRoom(size int, now int64, b [3]int) (dropped int) {
	for i := m.inFlight; i < len(m.frames); {
		f := m.frames[i]
		if f.started {
			i++
			continue
		}
		if len(m.bytes())+size <= b[0] && len(m.frames) < b[1] && (b[2] == 0 || now-f.at <= int64(b[2])) {
			break
		}
		if f.kept {
			i++
			continue
		}
		m.frames = append(m.frames[:i:i], m.frames[i+1:]...)
		dropped++
	}
	return dropped
}

// Whatever the order of adding, lending, writing, dropping and settling, the queue holds the same frames as the model.
func TestQueueIsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newQueueCheck(t)
		t.Repeat(map[string]func(*rapid.T){
			"copy":   c.copy,
			"shared": c.shared,
			"tail":   c.tail,
			"fill":   c.fill,
			"write":  c.write,
			"room":   c.room,
			"settle": func(*rapid.T) {
				if c.m.inFlight == 0 {
					c.q.Compact(testChunk)
				}
			},
			"time": func(*rapid.T) { c.now++ },
			"": func(t *rapid.T) {
				if c.q.Len() != len(c.m.frames) || c.q.Bytes() != len(c.m.bytes()) {
					t.Fatalf("%d frames, %d bytes; want %d, %d", c.q.Len(), c.q.Bytes(), len(c.m.frames), len(c.m.bytes()))
				}
				// The memory of a partly written frame is still whole, and an allocation for one frame may be slightly larger.
				if said, does := c.q.Memory(); said < does || said > does+3*testChunk+len(c.m.frames)*testChunk {
					t.Fatalf("it says that it takes %d bytes of memory, and takes %d", said, does)
				}
			},
		})
		if inFlight, _, all := c.q.fill(); all && !bytes.Equal(inFlight, c.m.bytes()) {
			t.Fatalf("it holds %q, want %q", inFlight, c.m.bytes())
		}
		for rapid.Bool().Draw(t, "drained") && c.q.Len() > 0 {
			inFlight, _, _ := c.q.fill()
			c.q.Written(len(inFlight))
			c.m.written(len(inFlight))
		}
		if said, does := c.q.Memory(); c.q.Len() == 0 && said != does {
			t.Fatalf("an empty queue takes %d bytes of memory, and says %d", does, said)
		}
		if n := c.q.Reset(); n != len(c.m.bytes()) || c.q.Len() != 0 {
			t.Fatalf("reset dropped %d bytes of %d, %d frames are left", n, len(c.m.bytes()), c.q.Len())
		}
	})
}

// testQueue is a queue with a pool and bounds of its own.
type testQueue struct {
	buffer.Queue
	pool   buffer.Pool
	bounds buffer.Bounds
}

// newTestQueue returns a test queue. age is in the unit of the times that the methods are given.
func newTestQueue(chunk, bytes, frames int, age int64) *testQueue {
	return &testQueue{pool: buffer.Pool{Size: chunk}, bounds: buffer.Bounds{
		Bytes: bytes, Frames: frames, Age: age, Memory: math.MaxInt, Chunk: chunk,
	}}
}

func (q *testQueue) addCopy(p []byte, now int64, kept bool) { q.AddCopy(p, now, kept, &q.pool) }
func (q *testQueue) full(size int, now int64) bool          { return q.Full(size, now, &q.bounds) }
func (q *testQueue) makeRoom(size int, now int64) (drops int) {
	return q.MakeRoom(size, now, &q.bounds)
}

// fill returns the bytes in flight, joined, and the number of slices.
func (q *testQueue) fill() (inFlight []byte, parts int, all bool) {
	b := buffer.NewBatch()
	all = q.FillBatch(b)
	return bytes.Join(b.Parts, nil), len(b.Parts), all
}

// queueCheck applies the same operations to a queue and to its model.
type queueCheck struct {
	q     *testQueue
	m     queueModel
	bound [3]int
	now   int64
	next  byte
}

const testChunk = 32

func newQueueCheck(t *rapid.T) *queueCheck {
	c := &queueCheck{next: 'a', bound: [3]int{
		rapid.IntRange(1, 200).Draw(t, "bytes"), rapid.IntRange(1, 20).Draw(t, "frames"), rapid.IntRange(0, 10).Draw(t, "age"),
	}}
	c.q = newTestQueue(testChunk, c.bound[0], c.bound[1], int64(c.bound[2]))
	return c
}

// fresh returns a frame that differs from all earlier ones.
func (c *queueCheck) fresh(t *rapid.T) (p []byte, kept bool) {
	p = bytes.Repeat([]byte{c.next}, rapid.IntRange(0, 2*testChunk).Draw(t, "size"))
	c.next = 'a' + (c.next-'a'+1)%26
	return p, rapid.Bool().Draw(t, "kept")
}

func (c *queueCheck) add(p []byte, kept bool) {
	if len(p) > 0 {
		c.m.frames = append(c.m.frames, modelFrame{b: p, at: c.now, kept: kept})
	}
}

func (c *queueCheck) copy(t *rapid.T) {
	p, kept := c.fresh(t)
	own := bytes.Clone(p)
	c.q.addCopy(own, c.now, kept)
	clear(own) // the queue has a copy
	c.add(p, kept)
}

func (c *queueCheck) shared(t *rapid.T) {
	p, kept := c.fresh(t)
	c.q.Add(buffer.Frame{B: p, At: c.now, Kept: kept})
	c.add(p, kept)
}

func (c *queueCheck) tail(t *rapid.T) {
	p, _ := c.fresh(t)
	if len(p) == 0 || c.m.inFlight > 0 || len(c.m.frames) > 0 && c.m.frames[0].started {
		return
	}
	c.q.AddFirst(buffer.Frame{B: p, At: c.now, Kept: true})
	c.m.frames = append([]modelFrame{{b: p, at: c.now, kept: true, started: true}}, c.m.frames...)
}

func (c *queueCheck) fill(t *rapid.T) {
	want := c.m.bytes()
	inFlight, parts, all := c.q.fill()
	if all && !bytes.Equal(inFlight, want) || !bytes.HasPrefix(want, inFlight) {
		t.Fatalf("inFlight %q, all %v; want %q", inFlight, all, want)
	}
	if parts > len(c.m.frames) {
		t.Fatalf("%d parts for %d frames", parts, len(c.m.frames))
	}
	c.m.inFlight = 0
	for n := len(inFlight); n > 0; c.m.inFlight++ {
		n -= len(c.m.frames[c.m.inFlight].b)
	}
}

func (c *queueCheck) write(t *rapid.T) {
	inFlight, _, _ := c.q.fill()
	n := rapid.IntRange(0, len(inFlight)).Draw(t, "n")
	c.q.Written(n)
	c.m.written(n)
}

func (c *queueCheck) room(t *rapid.T) {
	size := rapid.IntRange(1, 50).Draw(t, "size")
	if got, want := c.q.full(size, c.now), c.m.full(size, c.now, c.bound); got != want {
		t.Fatalf("full: %v, want %v", got, want)
	}
	if got, want := c.q.makeRoom(size, c.now), c.m.makeRoom(size, c.now, c.bound); got != want {
		t.Fatalf("dropped %d, want %d", got, want)
	}
}

// Frames of any sizes take no more memory than the bound allows, including their places in the queue.
func TestQueueMemoryIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.IntRange(4<<10, 64<<10).Draw(t, "bound")
		q := newTestQueue(1<<10, bound, 1<<20, 0)
		q.bounds.Memory = bound
		least := rapid.IntRange(1, 800).Draw(t, "least")
		for range 300 {
			size := rapid.IntRange(least, least+rapid.IntRange(0, 2000).Draw(t, "spread")).Draw(t, "size")
			if rapid.IntRange(0, 9).Draw(t, "write") == 0 {
				inFlight, _, _ := q.fill()
				q.Written(rapid.IntRange(0, len(inFlight)).Draw(t, "written"))
			}
			if q.full(size, 0) {
				q.makeRoom(size, 0)
			}
			if q.full(size, 0) {
				continue
			}
			alone := q.Len() == 0
			q.addCopy(make([]byte, size), 0, rapid.IntRange(0, 20).Draw(t, "kept") == 0)
			// The allocation for a big frame may be a fifth larger.
			if said, _ := q.Memory(); !alone && said+q.Places() > bound+size/5 {
				t.Fatalf("%d bytes of memory and %d for places exceed %d", said, q.Places(), bound)
			}
		}
	})
}

// Copied frames are neighbours in memory, so that many small ones are one slice for the system call.
func TestQueueJoinsNeighbours(t *testing.T) {
	q := newTestQueue(1024, 1<<20, 1000, 0)
	for range 20 {
		q.addCopy([]byte("0123456789"), 0, false)
	}
	if inFlight, parts, all := q.fill(); len(inFlight) != 200 || parts != 1 || !all {
		t.Errorf("%d bytes in %d parts, all %v; want 200 in 1", len(inFlight), parts, all)
	}
}

// Giving a buffer back while it is in use, or twice, is a bug.
func TestGivingABufferBackThatIsInUsePanics(t *testing.T) {
	(*buffer.Buffer)(nil).Return()
	for name, f := range map[string]func(b *buffer.Buffer){
		"released twice":      func(b *buffer.Buffer) { b.Release(); b.Release() },
		"not owned":           func(b *buffer.Buffer) { b.Return() },
		"owned and not free":  func(b *buffer.Buffer) { b.Own(); b.Free = false; b.Return() },
		"returned twice":      func(b *buffer.Buffer) { b.Own(); b.Return(); b.Return() },
		"released and return": func(b *buffer.Buffer) { b.Release(); b.Return() },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it did not panic")
				}
			}()
			f((&buffer.Pool{Size: 1}).Get())
		})
	}
}

// A big frame takes its time, and does not make the queue count as full, because its sender waits for it. The frames behind it do.
func TestBigFramesDoNotAge(t *testing.T) {
	bounds := &buffer.Bounds{Bytes: 100, Frames: 10, Memory: 1 << 20, Chunk: buffer.ChunkSize, Age: 10}
	var q buffer.Queue
	q.Add(buffer.Frame{Big: buffer.NewMemory([]byte("large")), Kept: true})
	if q.Full(1, 1000, bounds) {
		t.Error("full for its age")
	}
	q.Add(buffer.Frame{B: []byte("small"), At: 1000})
	if q.Full(1, 1010, bounds) || !q.Full(1, 1011, bounds) {
		t.Error("the age of the frame behind is not what counts")
	}
}
