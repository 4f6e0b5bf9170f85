package load

import (
	"bufio"
	"encoding/gob"
	"fmt"
	"io"
	"sync"
)

// What a run and the processes of its clients say to each other, over pipes: one job, orders one after the other, and reports whenever
// there is something to report. Each is a message of encoding/gob, which puts its length before it. A run whose clients are in its own process
// talks to them in the same way.

// job is what a process is started for.
type job struct {
	Spec     Spec // complete
	Token    string
	Run      uint32
	From, To int // its clients
}

// order is what clients are to do. The fields say with what.
type order struct {
	Do orderKind

	From, To int64    // doMeasure: publications that are due from then on, and until then, count
	Courses  []course // doDrain, by stream
	First    uint32   // likewise: the first publication that counts
}

type orderKind uint8

const (
	doConnect orderKind = iota + 1 // let all clients come in
	doMeasure                      // know which publications count
	doStall                        // let those that are to stop reading do so
	doFree                         // let them read again
	doStorm                        // cut all and let them come again
	doDrain                        // wait until all has come
	doEnough                       // stop waiting
	doClose                        // say what came of it, and end
)

// report is what clients say. One field is set.
type report struct {
	Look      *look
	Done      []uint32 // publications that all clients of the process have
	Connected *connected
	Drained   bool
	Share     *share
}

// look is how far clients have come.
type look struct {
	Subscribed int
	Counts     counts
	Live       []int64 // counts of a histogram
}

// connected says that all clients have come in, or failed.
type connected struct {
	Readers []int64 // by channel: how many clients are subscribed and will read
	Clients int
	Joined  int64 // when the last one came
	Reasons map[string]int
}

// courier sends messages of one kind. Its methods may be called concurrently.
type courier[T any] struct {
	mu  sync.Mutex
	w   *bufio.Writer
	enc *gob.Encoder
}

func newCourier[T any](w io.Writer) *courier[T] {
	buffered := bufio.NewWriterSize(w, 64<<10)
	return &courier[T]{w: buffered, enc: gob.NewEncoder(buffered)}
}

func (c *courier[T]) send(m *T) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enc.Encode(m); err != nil {
		return fmt.Errorf("load: send: %w", err)
	}
	if err := c.w.Flush(); err != nil {
		return fmt.Errorf("load: send: %w", err)
	}
	return nil
}
