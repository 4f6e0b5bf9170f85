package writer_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/internal/writer"
)

// sent is an accepted frame: its number, and when the call that sent it began and ended.
type sent struct{ began, ended, size int }

// model sends numbered frames in all ways, with other sends during writes, and checks that the connection gets each accepted frame once, whole, and
// after every frame whose call had returned before its own began.
type model struct {
	*fake
	t      *rapid.T
	clock  int
	frames map[uint32]*sent
	next   uint32
	depth  int
	wanted int // refusals of TryWrite that Writable has not answered
}

// message returns a message that begins with its number.
func (m *model) message() (number uint32, msg []byte) {
	m.next++
	size := rapid.SampledFrom([]int{4, 10, 100, 3000, 9000, 40_000}).Draw(m.t, "size")
	msg = make([]byte, size)
	binary.BigEndian.PutUint32(msg, m.next)
	return m.next, msg
}

// send makes one call. Another call may happen during one of its writes.
func (m *model) send() {
	if m.depth < 3 && rapid.Bool().Draw(m.t, "another during it") {
		m.during = func() {
			m.depth++
			m.send()
			m.depth--
		}
	}
	number, msg := m.message()
	m.clock++
	f := &sent{began: m.clock, size: len(msg) + 4}
	accepted := false
	switch rapid.IntRange(0, 5).Draw(m.t, "how") {
	case 0, 1:
		accepted = m.w.Send(nil, msg) == nil
	case 2:
		accepted = m.w.Write(frame(msg), false) == nil
	case 3:
		accepted = m.w.Write(frame(msg), true) == nil
	case 4:
		n, err := m.w.TryWrite([][]byte{frame(msg)})
		accepted = n == 1
		if n == 0 && err == nil {
			m.wanted++
			if m.depth == 0 && m.room == 0 && m.state() == writer.Idle {
				m.t.Fatal("TryWrite was refused, and the engine does not look for room")
			}
		}
	case 5:
		accepted = m.err == nil
		m.w.Reply(frame(msg))
	}
	m.clock++
	if f.ended = m.clock; accepted {
		m.frames[number] = f
	}
}

// cork handles the messages of a read.
func (m *model) cork() {
	m.locked(func() { m.w.Cork(nil) })
	for range rapid.IntRange(0, 6).Draw(m.t, "answers") {
		m.send()
		if rapid.IntRange(0, 5).Draw(m.t, "tick") == 0 {
			m.w.CorkTick()
			m.w.CorkTick()
		}
	}
	m.locked(func() {
		m.w.Uncork(-1)
		m.w.Handled()
	})
}

// step does something.
func (m *model) step() {
	switch rapid.IntRange(0, 4).Draw(m.t, "step") {
	case 0, 1:
		m.send()
	case 2:
		m.cork()
	case 3:
		m.writeAll(rapid.SampledFrom([]int{0, 1, 50, 5000, 200_000}).Draw(m.t, "room"))
	case 4:
		m.room += rapid.SampledFrom([]int{1, 100, 10_000}).Draw(m.t, "more room")
	}
	m.during = nil
	if m.state() == writer.Idle && m.w.Overloaded() {
		m.t.Fatal("overloaded although nothing waits")
	}
	m.locked(func() {
		if m.w.TakeWritable() {
			if m.writable == 0 {
				m.t.Fatal("TryWrite was refused, and the owner is not told that there is room")
			}
			m.wanted, m.writable = 0, 0
		} else if m.wanted > 0 && m.w.State() == writer.Idle {
			m.t.Fatal("TryWrite was refused, and Writable is not owed")
		}
	})
}

// check compares what the connection got with what was accepted.
func (m *model) check() (delivered int) {
	var last []*sent
	for rest := m.got; len(rest) >= 8; {
		size := int(binary.BigEndian.Uint32(rest)) + 4
		number := binary.BigEndian.Uint32(rest[4:])
		f := m.frames[number]
		if f == nil {
			m.t.Fatalf("frame %d was not accepted, or came before", number)
		}
		if size != f.size {
			m.t.Fatalf("frame %d has %d bytes instead of %d", number, size, f.size)
		}
		if i := slices.IndexFunc(last, func(before *sent) bool { return before.began > f.ended }); i >= 0 {
			m.t.Fatalf("frame %d comes after one whose call began when its own had ended", number)
		}
		last = append(last, f)
		if len(rest) < size {
			break
		}
		delete(m.frames, number)
		rest = rest[size:]
		delivered++
	}
	return delivered
}

func newModel(t *rapid.T) *model {
	direct := rapid.Bool().Draw(t, "direct")
	return &model{
		fake: newFake(direct, writer.Refuse, rapid.SampledFrom([]int{10_000, 200_000}).Draw(t, "queue")), t: t,
		frames: make(map[uint32]*sent),
	}
}

// Every accepted frame arrives once, whole and in order.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			m.step()
		}
		m.writeAll(1 << 30)
		if s := m.state(); s != writer.Idle {
			t.Fatalf("the state is %d in the end", s)
		}
		if m.check(); len(m.frames) > 0 {
			t.Fatalf("%d frames are missing", len(m.frames))
		}
		if m.wrote != len(m.got) && m.direct {
			t.Fatalf("%d bytes were counted of %d", m.wrote, len(m.got))
		}
	})
}

// After an abort every accepted byte has either been written or is counted as lost.
func TestLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			m.step()
		}
		accepted := 0
		for _, f := range m.frames {
			accepted += f.size
		}
		lost := 0
		m.locked(func() {
			m.Fail(writer.Broken, errClosed)
			if m.w.State() == writer.WaitWritable {
				m.w.Quit()
			}
			lost = m.lost + m.w.Release()
		})
		if len(m.got)+lost != accepted {
			t.Fatalf("%d bytes were accepted, %d written, %d lost", accepted, len(m.got), lost)
		}
	})
}
