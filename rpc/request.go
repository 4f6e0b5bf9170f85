package rpc

import (
	"context"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-push/sluice/rpc/frame"
)

// Request is a call that a client makes. It keeps its memory, so that calls which use one Request again and again do not allocate. It is used for one
// call at a time, and not copied.
type Request struct {
	Method string
	// Form is the form of the bodies; nil is that of the connection.
	Form Form
	// Metadata is sent with the call, if the framing has headers.
	Metadata []Pair
	// OneWay is for methods that are not answered.
	OneWay bool

	// Set by Do, and by Stream for the request in a Stream.
	frame    frame.Frame
	body     []byte
	done     chan struct{} // has an element, or is closed for a stream, when answer, metadata and err are set
	answer   []byte
	metadata []Pair // of the answer
	err      error
	stream   *Stream // that this is the request of; nil for other calls
}

var requests = sync.Pool{New: func() any { return new(Request) }}

// Reset empties the request and keeps its memory, up to 64 KiB for each body.
func (r *Request) Reset() {
	r.Method, r.Form, r.OneWay, r.err = "", nil, false, nil
	r.Metadata, r.metadata = r.Metadata[:0], r.metadata[:0]
	r.body, r.answer = kept(r.body), kept(r.answer)
}

// Reply returns the body of the last answer. It is valid until the request is used again.
func (r *Request) Reply() []byte { return r.answer }

// ReplyMetadata returns the first value that came with the last answer for a key, and whether there is one.
func (r *Request) ReplyMetadata(key string) (value string, ok bool) { return lookUp(r.metadata, key) }

// AllReplyMetadata returns all pairs that came with the last answer, in their order. They are valid until the request is used again.
func (r *Request) AllReplyMetadata() []Pair { return r.metadata }

// prepare makes the frame and the body.
func (r *Request) prepare(ctx context.Context, c *Conn, form Form, in any) (err error) {
	if r.done == nil {
		r.done = make(chan struct{}, 1)
	}
	r.answer, r.metadata, r.err = r.answer[:0], r.metadata[:0], nil
	if r.body, err = form.Append(r.body[:0], in); err != nil {
		return Errorf(BadMessage, "the arguments of %s: %w", r.Method, err)
	}
	o := &c.options
	if most := frameBytes(o.Frame); len(r.body) > most {
		return Errorf(TooLarge, "the arguments of %s have %d bytes, at most %d are allowed", r.Method, len(r.body), most)
	}
	f := &r.frame
	f.Reset()
	f.Dialect, f.Kind = o.dialect(form), frame.Call
	if r.OneWay {
		f.Kind = frame.OneWay
	}
	f.SetMethod(r.Method)
	if !f.Dialect.Framing.HasHeader() {
		return nil
	}
	f.Flags = frame.FlagOutOfOrder
	for i := range r.Metadata {
		f.Add(r.Metadata[i].Key, r.Metadata[i].Value)
	}
	if o.Compress != 0 && o.CompressFrom >= 0 && len(r.body) >= o.CompressFrom {
		f.Transforms = append(f.Transforms, o.Compress)
	}
	if r.stream != nil {
		f.Add(keyStream, r.stream.window.size.String())
	}
	deadline, ok := ctx.Deadline()
	if left := time.Until(deadline); ok && left <= maxTimeout {
		var digits [20]byte
		ms := string(strconv.AppendInt(digits[:0], max(1, (left+time.Millisecond-1).Milliseconds()), 10)) // FormatInt would allocate
		if f.Dialect.Framing == frame.TTHeader {
			f.AddInt(intTimeout, ms)
		} else {
			f.Add(keyTimeout, ms)
		}
	}
	return nil
}

// maxTimeout is the longest time that is sent with a call: what servers read is an int32. A later deadline is the caller's only.
const maxTimeout = math.MaxInt32 * time.Millisecond

// complete sets the answer.
func (r *Request) complete(f *frame.Frame, body []byte) {
	for i := range f.Pairs {
		if key := string(f.Pairs[i].Key); key != keyPeer && key != keyStream && key != keyRefused {
			r.metadata = append(r.metadata, Pair{key, string(f.Pairs[i].Value)})
		}
	}
	if f.Kind == frame.Exception {
		x, err := frame.ParseException(f.Dialect.Protocol, body)
		if err != nil {
			r.fail(Errorf(BadMessage, "the error that was answered: %w", err))
			return
		}
		r.fail(&Error{Code: Code(x.Code), Message: x.Message, Remote: true, refused: f.Value(keyRefused) != nil})
		return
	}
	if want := r.frame.Dialect.Protocol; f.Dialect.Protocol != want {
		r.fail(Errorf(BadMessage, "the result is in the protocol %v, not in %v", f.Dialect.Protocol, want))
		return
	}
	switch {
	case r.stream == nil:
		r.answer = append(r.answer, body...)
	case string(f.Value(keyStream)) != streamEnd:
		r.stream.last(body)
	}
	r.finish()
}

// fail sets the error.
func (r *Request) fail(err error) {
	if r.stream != nil {
		err = withoutEOF(err)
	}
	r.err = err
	r.finish()
}

// finish says that answer, metadata and err are set.
func (r *Request) finish() {
	if r.stream != nil {
		r.stream.finish()
		return
	}
	r.done <- struct{}{}
}
