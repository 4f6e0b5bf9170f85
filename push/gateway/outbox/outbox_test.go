package outbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway/outbox"
	"github.com/sluice-push/sluice/push/hub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// brackets is a framing that shows what was framed.
type brackets struct{}

func (brackets) Begin(dst []byte) []byte { return append(dst, '<') }

func (brackets) Finish(dst []byte, _ int) []byte { return append(dst, '>') }

const ping = "[ping]"

func newOutbox() *outbox.Outbox {
	o := new(outbox.Outbox)
	o.Init(outbox.Options{Framing: brackets{}, Ping: func(dst []byte) []byte { return append(dst, ping...) }, Abort: func() {}})
	return o
}

func frame(text string) hub.Frame { return hub.Frame{Bytes: []byte(text)} }

// large is half of what an outbox takes, and more.
var large = string(bytes.Repeat([]byte("x"), outbox.Limit*2/3))

// TestOrder: hello is first, frames and replies follow in their order, and the ping is last.
func TestOrder(t *testing.T) {
	o := newOutbox()
	if o.TryWrite([]hub.Frame{frame("early")}) != 0 || !errors.Is(o.Reply([]byte("early")), outbox.ErrEnded) || o.Begun() {
		t.Error("something is taken before Begin")
	}
	if !o.Ping() {
		t.Error("the ping is not taken")
	}
	o.Begin(func(dst []byte) []byte { return append(dst, "hello,"...) })
	if n := o.TryWrite([]hub.Frame{frame("a,"), frame("b,")}); n != 2 {
		t.Errorf("%d frames are taken", n)
	}
	if err := o.Reply([]byte("reply")); err != nil {
		t.Error(err)
	}
	o.Ping()
	o.TryWrite([]hub.Frame{frame(",c,")})
	out, ends := o.Take(nil)
	if want := "hello,a,b,<reply>,c," + ping; string(out) != want || ends != nil {
		t.Errorf("took %s, %v, want %s", out, ends, want)
	}
	if !o.Written() {
		t.Error("Written does not say that a frame was refused")
	}
	if out, _ = o.Take(nil); len(out) != 0 || o.Written() {
		t.Errorf("then took %q", out)
	}
}

// TestHooks: a transport may append frames in its own way.
func TestHooks(t *testing.T) {
	o, aborted := new(outbox.Outbox), 0
	o.Init(outbox.Options{
		Framing: brackets{},
		Frame:   func(dst []byte, f *hub.Frame) []byte { return fmt.Appendf(dst, "%s=%s;", f.Channel, f.Bytes) },
		Abort:   func() { aborted++ },
	})
	o.Begin(nil)
	o.TryWrite([]hub.Frame{{Channel: "a", Bytes: []byte("1")}, {Channel: "b", Bytes: []byte("2")}})
	if out, _ := o.Take(nil); string(out) != "a=1;b=2;" {
		t.Errorf("took %s", out)
	}
	o.Abort(push.DisconnectSlow)
	if aborted != 1 {
		t.Errorf("aborted %d times", aborted)
	}
}

// TestWaitingReply: a reply without room waits until there is some, or until the connection ends.
func TestWaitingReply(t *testing.T) {
	for name, tt := range map[string]struct {
		then func(o *outbox.Outbox)
		want error
	}{
		"written": {func(o *outbox.Outbox) { _, _ = o.Take(nil); o.Written() }, nil},
		"ended":   {func(o *outbox.Outbox) { o.End(nil, push.DisconnectShutdown) }, outbox.ErrEnded},
		"closed":  {(*outbox.Outbox).Close, outbox.ErrEnded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutbox()
				o.Begin(nil)
				o.TryWrite([]hub.Frame{frame(large), frame(large)})
				const waiting = 3
				answers := make(chan error, waiting)
				for range waiting {
					go func() { answers <- o.Reply([]byte("r")) }()
				}
				synctest.Wait()
				if len(answers) != 0 {
					t.Fatal("a reply without room does not wait")
				}
				_, _ = o.Take(nil) // being written counts
				synctest.Wait()
				if len(answers) != 0 {
					t.Fatal("a reply does not wait for what is being written")
				}
				tt.then(o)
				for range waiting {
					if err := <-answers; !errors.Is(err, tt.want) {
						t.Errorf("a reply got %v, want %v", err, tt.want)
					}
				}
			})
		})
	}
}

// TestEnd: with why the connection ends the owner takes what was there before, and nothing is taken any more.
func TestEnd(t *testing.T) {
	o := newOutbox()
	o.Begin(nil)
	o.TryWrite([]hub.Frame{frame("a")})
	o.End(nil, push.DisconnectSlow)
	if o.TryWrite([]hub.Frame{frame("b")}) != 0 || !errors.Is(o.Reply([]byte("c")), outbox.ErrEnded) || o.Ping() {
		t.Error("something is taken after End")
	}
	if out, ends := o.Take(nil); string(out) != "a" || ends == nil || *ends != push.DisconnectSlow {
		t.Errorf("took %q, %v", out, ends)
	}
	o.Close()
	if o.Queued() != 0 {
		t.Errorf("%d bytes are queued after Close", o.Queued())
	}
}

// TestIdleIsSmall: an outbox in which nothing waits keeps no large memory.
func TestIdleIsSmall(t *testing.T) {
	o := newOutbox()
	o.Begin(nil)
	o.TryWrite([]hub.Frame{frame(large)})
	out, _ := o.Take(nil)
	o.Written()
	kept, _ := o.Take(out)
	if out, _ = o.Take(nil); cap(kept) != 0 || cap(out) != 0 {
		t.Errorf("%d and %d bytes are kept", cap(kept), cap(out))
	}
	small := make([]byte, 0, 1000)
	_, _ = o.Take(small)
	o.TryWrite([]hub.Frame{frame("a")})
	if out, _ = o.Take(nil); cap(out) != cap(small) {
		t.Errorf("a small buffer is not used again: %d bytes", cap(out))
	}
}

// TestConcurrent: whatever several goroutines do at a time, the owner gets each frame and each reply once, those of one goroutine in order.
func TestConcurrent(t *testing.T) {
	o := newOutbox()
	o.Begin(nil)
	const each = 2000
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := 0; i < each; {
			if o.TryWrite([]hub.Frame{frame(fmt.Sprintf("f%d,", i))}) == 1 {
				i++
				o.Queued()
			}
		}
	})
	writing.Go(func() {
		for i := range each {
			if err := o.Reply(fmt.Appendf(nil, "%d", i)); err != nil {
				t.Error(err)
			}
		}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		writing.Wait()
		o.End(nil, push.DisconnectShutdown)
	}()
	var all []byte
	for {
		<-o.Wake()
		out, ends := o.Take(nil)
		all = append(all, out...)
		o.Written()
		if ends != nil {
			break
		}
	}
	<-done
	frames, replies := 0, 0
	for len(all) > 0 {
		for _, next := range []struct {
			text string
			n    *int
		}{{fmt.Sprintf("f%d,", frames), &frames}, {fmt.Sprintf("<%d>", replies), &replies}} {
			if rest, ok := bytes.CutPrefix(all, []byte(next.text)); ok {
				all = rest
				*next.n++
				break
			} else if next.n == &replies {
				t.Fatalf("after %d frames and %d replies comes %.20s", frames, replies, all)
			}
		}
	}
	if frames != each || replies != each {
		t.Errorf("%d frames and %d replies were taken", frames, replies)
	}
}

// model is what an outbox has to be: everything that was taken, in order.
type model struct {
	*rapid.T
	o       *outbox.Outbox
	buf     []byte
	writing int
	waiting []string // replies, of which each has a goroutine
	answers chan error
	begun   bool
	ended   bool
	told    bool // the owner knows that
	closed  bool
	pingDue bool
	refused bool
	number  int
}

func (m *model) isFull() bool { return len(m.buf)+m.writing >= outbox.Limit }

// text is different each time, and sometimes long.
func (m *model) text() string {
	m.number++
	size := rapid.SampledFrom([]int{1, 10, 1000, 40_000, 100_000}).Draw(m.T, "size")
	return fmt.Sprintf("%d:%s", m.number, large[:min(size, len(large))])
}

func (m *model) write() {
	var frames []hub.Frame
	want, full := 0, false
	for range rapid.IntRange(1, 4).Draw(m.T, "frames") {
		text := m.text()
		frames = append(frames, frame(text))
		full = full || !m.begun || m.ended || m.closed || m.isFull()
		if !full {
			m.buf = append(m.buf, text...)
			want++
		}
	}
	m.refused = m.refused || full
	if got := m.o.TryWrite(frames); got != want {
		m.Fatalf("%d frames of %d were taken, want %d", got, len(frames), want)
	}
	m.wantWake()
}

func (m *model) reply() {
	text := m.text()
	go func() { m.answers <- m.o.Reply([]byte(text)) }()
	m.waiting = append(m.waiting, text)
	m.settle()
}

// settle compares which replies have returned. Several that wait for the same room are not told apart: one waits at most.
func (m *model) settle() {
	synctest.Wait()
	var want error
	switch {
	case len(m.waiting) == 0:
		return
	case !m.begun || m.ended || m.closed:
		want = outbox.ErrEnded
	case m.isFull():
		if len(m.answers) > 0 {
			m.Fatalf("a reply without room got %v", <-m.answers)
		}
		return
	default:
		m.buf = append(append(append(m.buf, '<'), m.waiting[0]...), '>')
	}
	m.waiting = m.waiting[1:]
	if len(m.answers) != 1 {
		m.Fatal("a reply waits though it need not")
	}
	if err := <-m.answers; !errors.Is(err, want) {
		m.Fatalf("a reply got %v, want %v", err, want)
	}
	if want == nil {
		m.wantWake()
	}
}

// take is what the owner does when it is woken, and before that.
func (m *model) take() {
	m.wantWake()
	select {
	case <-m.o.Wake():
	default:
	}
	out, ends := m.o.Take(nil)
	want := m.buf
	if m.pingDue {
		want = append(want, ping...)
	}
	if !bytes.Equal(out, want) || (ends != nil) != m.ended {
		m.Fatalf("took %d bytes, %v, want %d", len(out), ends, len(want))
	}
	m.buf, m.pingDue, m.told, m.writing = nil, false, m.ended, len(want)
}

func (m *model) written() {
	if got := m.o.Written(); got != m.refused {
		m.Fatalf("Written says %t, want %t", got, m.refused)
	}
	m.refused, m.writing = false, 0
	m.settle()
}

// wantWake fails the test if the owner is not woken though something waits.
func (m *model) wantWake() {
	if (len(m.buf) > 0 || m.pingDue || m.ended && !m.told) && len(m.o.Wake()) == 0 {
		m.Fatal("the owner is not woken")
	}
}

// check compares what is queued, and its bound.
func (m *model) check(*rapid.T) {
	if got, want := m.o.Queued(), len(m.buf)+m.writing; got != want {
		m.Fatalf("%d bytes are queued, want %d", got, want)
	}
	if most := outbox.Limit + len(large) + len(ping) + 20; m.o.Queued() > most {
		m.Fatalf("%d bytes are queued, at most %d may be", m.o.Queued(), most)
	}
}

// inBubble hides the deadline of a test, for which rapid must not ask in a bubble.
type inBubble struct{ *testing.T }

// TestModel: an outbox does what the model does.
func TestModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(inBubble{t}, func(t *rapid.T) {
			m := &model{T: t, o: newOutbox(), answers: make(chan error, 1)}
			t.Repeat(map[string]func(*rapid.T){
				"": m.check,
				"begin": func(*rapid.T) {
					m.o.Begin(nil)
					m.begun = true
				},
				"write":  func(*rapid.T) { m.write() },
				"write ": func(*rapid.T) { m.write() },
				"reply": func(*rapid.T) {
					if len(m.waiting) > 0 {
						return // one waits
					}
					m.reply()
				},
				"ping": func(*rapid.T) {
					taken := m.o.Ping()
					if taken == (m.ended || m.closed) {
						m.Fatalf("the ping is taken: %t", taken)
					}
					m.pingDue = m.pingDue || taken
				},
				"take": func(*rapid.T) {
					if m.writing > 0 || m.closed {
						return // the owner writes, or has gone
					}
					m.take()
				},
				"written": func(*rapid.T) { m.written() },
				"end": func(t *rapid.T) {
					if m.ended || rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
						return // not now
					}
					m.o.End(nil, push.DisconnectSlow)
					m.ended = true
					m.settle()
				},
				"close": func(t *rapid.T) {
					if rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
						return // not now
					}
					m.o.Close()
					m.closed, m.buf, m.writing = true, nil, 0
					m.settle()
				},
			})
			m.o.Close()
			for range m.waiting {
				<-m.answers
			}
		})
	})
}
