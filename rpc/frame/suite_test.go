package frame_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-push/sluice/rpc/frame"
)

// dialects are all the dialects there are.
var dialects = []frame.Dialect{
	{Framing: frame.THeader, Protocol: frame.Binary},
	{Framing: frame.THeader, Protocol: frame.Compact},
	{Framing: frame.THeader, Protocol: frame.Binary, Wrapped: true},
	{Framing: frame.THeader, Protocol: frame.Compact, Wrapped: true},
	{Framing: frame.TTHeader, Protocol: frame.Binary},
	{Framing: frame.TTHeader, Protocol: frame.Compact},
	{Framing: frame.TTHeader, Protocol: frame.Binary, Wrapped: true},
	{Framing: frame.TTHeader, Protocol: frame.Compact, Wrapped: true},
	{Framing: frame.TTHeader, Protocol: frame.Protobuf, Wrapped: true},
	{Framing: frame.TTHeader, Protocol: frame.ThriftStruct},
	{Framing: frame.TTHeader, Protocol: frame.ProtobufStruct},
	{Framing: frame.TTHeader, Protocol: frame.Bare},
	{Framing: frame.Framed, Protocol: frame.Binary},
	{Framing: frame.Framed, Protocol: frame.Compact},
	{Framing: frame.Framed, Protocol: frame.Protobuf},
	{Framing: frame.Unframed, Protocol: frame.Binary},
	{Framing: frame.Unframed, Protocol: frame.Compact},
}

// kinds returns the kinds of frames that a dialect has.
func kinds(d frame.Dialect) []frame.Kind {
	switch {
	case d.Protocol == frame.ThriftStruct || d.Protocol == frame.ProtobufStruct:
		return []frame.Kind{frame.Stream}
	case d.Protocol == frame.Bare:
		return []frame.Kind{frame.Call, frame.Reply, frame.Exception, frame.OneWay, frame.Control, frame.Stream}
	case d.Framing == frame.TTHeader:
		return []frame.Kind{frame.Call, frame.Reply, frame.Exception, frame.OneWay, frame.Control}
	}
	return []frame.Kind{frame.Call, frame.Reply, frame.Exception, frame.OneWay}
}

// show describes all that a frame says. Two frames that say the same have equal descriptions.
func show(f *frame.Frame) string {
	s := fmt.Sprintf("%v %v %d %d %q flags=%#x transforms=%v", f.Dialect, f.Kind, f.Sequence, f.HeaderSequence, f.Method, f.Flags, f.Transforms)
	for _, p := range f.Pairs {
		s += fmt.Sprintf(" %q=%q persistent=%v", p.Key, p.Value, p.Persistent)
	}
	for _, p := range f.Ints {
		s += fmt.Sprintf(" %d=%q", p.Key, p.Value)
	}
	if f.Token != nil {
		s += fmt.Sprintf(" token=%q", f.Token)
	}
	return s + fmt.Sprintf(" body=%x", f.Body)
}

// drain decodes a stream that arrives in pieces of the given size, and returns what the frames say, how many bytes they used, and the error. ends
// are the ends of the frames, if they are known: Decode must not ask for bytes beyond them. Decode is called only with as many bytes as it has
// asked for.
func drain(t *testing.T, o *frame.Options, stream []byte, step int, ends []int) (frames []string, used int, err error) {
	t.Helper()
	c := frame.New(o)
	need := 1
	for have := min(step, len(stream)); ; have = min(have+step, len(stream)) {
		for have-used >= need {
			arrived := slices.Clone(stream[used:have]) // with nothing behind it that could be read by mistake
			body, n, err := c.Decode(arrived)
			if err != nil {
				if _, _, again := c.Decode(arrived); again != err { //nolint:errorlint // it has to be the same error
					t.Fatalf("after the error %v, Decode returns %v", err, again)
				}
				return frames, used, err
			}
			if n <= 0 {
				need = have - used + max(-n, 1)
				if i := slices.IndexFunc(ends, func(end int) bool { return end > used }); i >= 0 && used+need > ends[i] {
					t.Fatalf("with %d bytes of a frame of %d, %d more are asked for", have-used, ends[i]-used, -n)
				}
				if body != nil || n == 0 {
					t.Fatalf("Decode returns %q, %d", body, n)
				}
				break
			}
			if body == nil || n > len(arrived) {
				t.Fatalf("Decode returns %q, %d of %d bytes", body, n, len(arrived))
			}
			frames = append(frames, show(c.Frame()))
			used, need = used+n, 1
		}
		if have == len(stream) {
			return frames, used, nil
		}
	}
}

// thriftStruct returns a random struct of Thrift, with values of all types, in the binary or the compact protocol.
func thriftStruct(r *rand.Rand, p frame.Protocol, depth int) []byte {
	w := structWriter{r: r, compact: p == frame.Compact}
	w.structure(depth)
	return w.out
}

// structWriter writes random structs.
type structWriter struct {
	r       *rand.Rand
	compact bool
	out     []byte
}

// The types of the binary protocol, and those of the compact protocol at the same index.
var (
	binaryTypes  = []byte{2, 3, 4, 6, 8, 10, 11, 16, 12, 13, 14, 15}
	compactTypes = []byte{1, 3, 7, 4, 5, 6, 8, 13, 12, 11, 10, 9}
)

// simpleTypes is how many of the types have no values inside.
const simpleTypes = 8

// kind returns the index of a type.
func (w *structWriter) kind(depth int) int {
	if depth <= 0 {
		return w.r.IntN(simpleTypes)
	}
	return w.r.IntN(len(binaryTypes))
}

func (w *structWriter) code(kind int) byte {
	if w.compact {
		return compactTypes[kind]
	}
	return binaryTypes[kind]
}

func (w *structWriter) structure(depth int) {
	for range w.r.IntN(5) {
		kind := w.kind(depth)
		code := w.code(kind)
		switch {
		case !w.compact:
			w.out = append(w.out, code, byte(w.r.Uint32()), byte(w.r.Uint32()))
		default:
			if kind == 0 {
				code = 1 + byte(w.r.IntN(2))
			}
			if delta := byte(w.r.IntN(16)); delta > 0 {
				w.out = append(w.out, code|delta<<4)
			} else {
				w.out = binary.AppendUvarint(append(w.out, code), uint64(w.r.IntN(1<<16)))
			}
			if kind == 0 {
				continue
			}
		}
		w.value(kind, depth)
	}
	w.out = append(w.out, 0)
}

func (w *structWriter) random(n int) {
	for range n {
		w.out = append(w.out, byte(w.r.Uint32()))
	}
}

func (w *structWriter) size(n int) {
	if w.compact {
		w.out = binary.AppendUvarint(w.out, uint64(n))
	} else {
		w.out = binary.BigEndian.AppendUint32(w.out, uint32(n))
	}
}

func (w *structWriter) value(kind, depth int) {
	switch kind {
	case 0, 1:
		w.random(1)
	case 2:
		w.random(8)
	case 3, 4, 5:
		if w.compact {
			w.out = binary.AppendUvarint(w.out, w.r.Uint64()>>w.r.IntN(64))
		} else {
			w.random([]int{2, 4, 8}[kind-3])
		}
	case 6:
		n := w.r.IntN(20)
		w.size(n)
		w.random(n)
	case 7:
		w.random(16)
	case 8:
		w.structure(depth - 1)
	case 9:
		w.mapping(depth)
	default:
		w.list(depth)
	}
}

func (w *structWriter) mapping(depth int) {
	n, key, value := w.r.IntN(4), w.kind(depth-1), w.kind(depth-1)
	if w.compact {
		w.size(n)
		if n > 0 {
			w.out = append(w.out, w.code(key)<<4|w.code(value))
		}
	} else {
		w.out = append(w.out, w.code(key), w.code(value))
		w.size(n)
	}
	for range n {
		w.value(key, depth-1)
		w.value(value, depth-1)
	}
}

func (w *structWriter) list(depth int) {
	n, kind := w.r.IntN(20), w.kind(depth-1)
	switch {
	case !w.compact:
		w.out = append(w.out, w.code(kind))
		w.size(n)
	case n < 15:
		w.out = append(w.out, byte(n)<<4|w.code(kind))
	default:
		w.out = append(w.out, 15<<4|w.code(kind))
		w.size(n)
	}
	for range n {
		w.value(kind, depth-1)
	}
}
