package writer_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/writer"
)

var errClosed = errors.New("closed")

// fake is a connection in memory with room that the test gives, and the owner of its Writer.
type fake struct {
	w      *writer.Writer
	direct bool
	room   int    // bytes that the connection takes
	got    []byte // bytes that it took
	broken error  // what the next write fails with
	during func() // called in the next write, without the lock
	held   int    // bytes that are pending
	ended  bool   // CloseWrite was called

	err      error // why nothing is accepted
	armed    int   // calls of ArmWritable that no engine has answered
	drained  int
	writable int
	resumed  int
	dropped  int
	lost     int
	wrote    int
	corks    int // HoldCork minus ReleaseCork
}

// newFake returns a Writer with a fake connection.
func newFake(direct bool, policy writer.Policy, queueBytes int) *fake {
	f := &fake{w: new(writer.Writer), direct: direct}
	f.w.Init(f, &writer.Config{
		Pools:  buffer.NewPools(0),
		Bounds: buffer.Bounds{Bytes: queueBytes, Frames: 64, Memory: 1 << 20, Chunk: buffer.ChunkSize},
		Policy: policy, CorkBytes: writer.CorkBytes(queueBytes),
	})
	f.w.SetEncoder(framing{})
	return f
}

func (f *fake) Conn() writer.Conn { return f }
func (f *fake) Direct() bool      { return f.direct }
func (f *fake) HasPending() bool  { return f.held > 0 }

func (f *fake) take(p []byte) int {
	n := min(len(p), f.room)
	f.got = append(f.got, p[:n]...)
	f.room -= n
	return n
}

// other runs what another goroutine does during a write.
func (f *fake) other() {
	if during := f.during; during != nil {
		f.during = nil
		during()
	}
}

func (f *fake) TryWrite(b *buffer.Batch) (n int, err error) {
	if !f.direct {
		panic("TryWrite of a connection that blocks")
	}
	f.other()
	if f.broken != nil {
		return 0, f.broken
	}
	f.held = 0
	for _, p := range b.Parts {
		n += f.take(p)
	}
	b.Sent = n
	return n, nil
}

func (f *fake) TryWriteBig(l *buffer.BigFrame) (int, error) {
	f.other()
	b := buffer.NewBatch()
	if err := l.FillBatch(b, &f.pools().Read); err != nil {
		return 0, err
	}
	n := 0
	for _, p := range b.Parts {
		n += f.take(p)
	}
	l.Written(n)
	return n, f.broken
}

func (f *fake) pools() *buffer.Pools { return buffer.NewPools(0) }

func (f *fake) CloseWrite() bool {
	f.other()
	f.ended = true
	return true
}

func (f *fake) ArmWritable()                 { f.armed++ }
func (f *fake) BeginBig(*buffer.BigFrame)    {}
func (f *fake) EndBig(*buffer.BigFrame) bool { return true }

func (f *fake) Err() error { return f.err }

func (f *fake) Fail(_ writer.Reason, err error) {
	if f.err == nil || f.err == errClosed { //nolint:errorlint // it is that very value
		f.err = errors.Join(errClosed, err)
	}
	f.w.Abort()
	f.w.AbortBig()
}

func (f *fake) Wrote(n int)     { f.wrote += n }
func (f *fake) Lost(n int)      { f.lost += n }
func (f *fake) Dropped(n int)   { f.dropped += n }
func (f *fake) Now() int64      { return 1 }
func (f *fake) Drained()        { f.drained++ }
func (f *fake) Writable()       { f.writable++ }
func (f *fake) Resumed()        { f.resumed++ }
func (f *fake) WillBlock() bool { return false }
func (f *fake) HandedOff()      {}
func (f *fake) HoldCork() bool  { f.corks++; return true }
func (f *fake) ReleaseCork()    { f.corks-- }

// locked calls a method of the Writer that wants the lock.
func (f *fake) locked(call func()) {
	f.w.Lock()
	defer f.w.Unlock()
	call()
}

// state returns the state.
func (f *fake) state() (s writer.State) {
	f.locked(func() { s = f.w.State() })
	return s
}

// writeAll is an engine that finds room for n bytes.
func (f *fake) writeAll(n int) {
	if f.room = n; !f.direct {
		f.writeBlocking()
		return
	}
	for range 1000 {
		before := len(f.got)
		f.locked(func() {
			if f.w.State() == writer.WaitWritable {
				f.w.WriteQueue()
			}
		})
		if len(f.got) == before {
			return
		}
	}
}

// writeBlocking is an engine that blocks, as far as there is room.
func (f *fake) writeBlocking() {
	if f.state() != writer.WaitWritable {
		return
	}
	for b := buffer.NewBatch(); ; {
		if _, ok := f.w.Next(b, false); !ok {
			return
		}
		n := 0
		for _, p := range b.Parts {
			n += f.take(p)
		}
		f.locked(func() { f.w.Done(nil, n) })
		if n < b.Size {
			return
		}
	}
}

// framing frames messages with a header of four bytes, their length.
type framing struct{}

func (framing) AppendEncode(dst, msg []byte) ([]byte, error) {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(msg))), msg...), nil //nolint:gosec // short
}

func (framing) AppendHeader(dst, msg []byte) ([]byte, error) {
	return binary.BigEndian.AppendUint32(dst, uint32(len(msg))), nil //nolint:gosec // short
}

// frame returns the frame of msg.
func frame(msg []byte) []byte {
	out, _ := framing{}.AppendEncode(nil, msg)
	return out
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
