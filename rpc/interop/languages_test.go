package interop_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
	"github.com/sluice-push/sluice/rpc/interop/testdata/echo"
	ours "github.com/sluice-push/sluice/rpc/thrift"
)

// Each of the programs has clientsEach clients at once, which make callsEach calls of Echo, and then some more: those whose answers they compare, and
// three one-way calls.
const (
	clientsEach = 4
	callsEach   = 60
	answersEach = callsEach + 7
	framesEach  = answersEach + 3
)

// languages are the programs in testdata.
//
// Node compresses nothing. Its TFramedTransport puts a frame of THeader into another frame (wrapped), which a server of package rpc accepts and answers
// likewise; Apache's for Go refuses it. A server of Node that expects this is left out, because clients of package rpc do not write it. The headers of
// generated clients are written only if the program helps them; those called "as generated" have THeaderProtocol, and send no headers.
var languages = []language{
	{
		name: "Python", folder: "python", installed: ".venv/requirements.txt", command: []string{".venv/bin/python", "-B", "peer.py"},
		calls: []string{
			"THeader binary", "THeader compact", "THeader binary zlib", "framed binary", "framed compact", "unframed binary", "unframed compact",
		},
		serves: []string{
			"THeader binary", "THeader compact", "THeader binary zlib", "framed binary", "framed compact", "unframed binary", "unframed compact",
		},
		undeclared: thrift.INTERNAL_ERROR, unknown: thrift.UNKNOWN_METHOD,
	},
	{
		name: "Node", folder: "node", installed: "node_modules/.package-lock.json", command: []string{"node", "peer.mjs"},
		calls: []string{
			"THeader binary", "THeader compact", "THeader binary, wrapped", "THeader compact, wrapped",
			"framed binary", "framed compact", "unframed binary", "unframed compact",
			"framed binary, as generated", "unframed binary, as generated",
		},
		serves: []string{"THeader binary", "THeader compact", "framed binary", "framed compact", "unframed binary", "unframed compact"},
		// 0: Node writes no codes, because it looks for them in a property that is never set.
	},
}

// dialectNamed returns the dialect that the programs call so, and whether messages are compressed.
func dialectNamed(name string) (d frame.Dialect, zlib bool) {
	d.Framing, d.Protocol = frame.Unframed, frame.Binary
	switch {
	case strings.HasPrefix(name, "THeader"):
		d.Framing = frame.THeader
	case strings.HasPrefix(name, "framed"):
		d.Framing = frame.Framed
	}
	if strings.Contains(name, "compact") {
		d.Protocol = frame.Compact
	}
	d.Wrapped = strings.HasSuffix(name, "wrapped")
	return d, strings.HasSuffix(name, "zlib")
}

// handler has the methods of the service.
type handler struct {
	mu   sync.Mutex
	told map[string]int32
}

func (*handler) Echo(_ context.Context, text string) (string, error) { return text, nil }

func (*handler) Fail(_ context.Context, text string) (string, error) {
	if text == "" {
		return "", errors.New("no reason")
	}
	return "", &echo.Failure{Why: text}
}

func (h *handler) Tell(_ context.Context, text string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told[text]++
	return nil
}

func (h *handler) Told(_ context.Context, text string) (int32, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told[text], nil
}

func (*handler) Header(ctx context.Context, key string) (string, error) {
	value, _ := thrift.GetHeader(ctx, key)
	return value, nil
}

// Clients in other languages, with generated code, call a server of package rpc with a generated processor, in all their dialects on one port. What they
// send is looked at: it is the dialect that they should have.
func TestLanguagesCallUs(t *testing.T) {
	srv := rpc.NewServer(nil)
	ours.Handle(srv, echo.NewEchoProcessor(&handler{told: map[string]int32{}}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		_ = srv.Close()
		_ = testwait.Receive(t, served)
	})
	for i := range languages {
		lang := &languages[i]
		t.Run(lang.name, func(t *testing.T) {
			t.Parallel()
			p := lang.start(t)
			for _, name := range lang.calls {
				t.Run(name, func(t *testing.T) {
					w, err := listen(l.Addr().String())
					if err != nil {
						t.Fatal(err)
					}
					o := task{Dialect: name, Port: w.port(), Seed: rand.Int32N(1 << 30)}
					r := p.do(t, o)
					if want := clientsEach * answersEach; len(r.Errors) > 0 || r.Calls != want {
						t.Errorf("%d calls were answered, want %d; seed %d: %q", r.Calls, want, o.Seed, r.Errors)
					}
					d, zlib := dialectNamed(name)
					if got, want := w.stop(t), map[sent]int{{d, zlib}: clientsEach * framesEach}; !maps.Equal(got, want) {
						t.Errorf("the clients sent %v, want %v", got, want)
					}
				})
			}
		})
	}
}

// Generated clients on connections of package rpc call servers in other languages. Those of Node answer calls in THeader without a header.
func TestWeCallLanguages(t *testing.T) {
	for i := range languages {
		lang := &languages[i]
		t.Run(lang.name, func(t *testing.T) {
			t.Parallel()
			p := lang.start(t)
			for _, name := range lang.serves {
				t.Run(name, func(t *testing.T) {
					address := fmt.Sprint("127.0.0.1:", p.do(t, task{Dialect: name}).Port)
					var group sync.WaitGroup
					for range clientsEach {
						group.Go(func() { callLanguage(t, lang, name, address) })
					}
					group.Wait()
				})
			}
		})
	}
}

// connOptions returns the options of a connection with a dialect.
func connOptions(name string) *rpc.ConnOptions {
	d, zlib := dialectNamed(name)
	o := &rpc.ConnOptions{Form: ours.Binary, Framing: d.Framing}
	if d.Protocol == frame.Compact {
		o.Form = ours.Compact
	}
	if zlib {
		o.Compress, o.CompressFrom = frame.Zlib, 1
	}
	return o
}

// callLanguage has a connection call a server.
func callLanguage(t *testing.T, lang *language, name, address string) {
	ctx, o := testwait.Context(t), connOptions(name)
	conn, err := rpc.Dial(ctx, "tcp", address, o)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close() }()
	c := ours.NewClient(conn)
	client := echo.NewNewer_Client(c)

	atOnce := 15
	if lang.name == "Node" && name == "THeader compact" {
		atOnce = 1 // testdata/node/peer.mjs says why
	}
	var group sync.WaitGroup
	for range atOnce {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		group.Go(func() {
			client := echo.NewNewer_Client(c) // each goroutine has its own, as package thrift says
			for range callsEach / atOnce {
				in := randomText(rng)
				if out, err := client.Echo(ctx, in); err != nil || out != in {
					t.Errorf("seed %d: %.100q is answered %.100q, %v", seed, in, out, err)
				}
			}
		})
	}
	group.Wait()

	var failure *echo.Failure
	if _, err := client.Fail(ctx, "why"); !errors.As(err, &failure) || failure.Why != "why" {
		t.Errorf("Fail: %v", err)
	}
	var e thrift.TApplicationException
	if _, err := client.Fail(ctx, ""); !errors.As(err, &e) || e.TypeId() != lang.undeclared {
		t.Errorf("Fail without a reason: %v", err)
	}
	if _, err := client.Nothing(ctx, "a"); !errors.As(err, &e) || e.TypeId() != lang.unknown {
		t.Errorf("Nothing: %v", err)
	}
	news := fmt.Sprint("news ", rand.Uint64())
	for want := range int32(3) {
		if err := client.Tell(ctx, news); err != nil {
			t.Errorf("Tell: %v", err)
		}
		if got, err := client.Told(ctx, news); err != nil || got != want+1 {
			t.Errorf("Told: %d, %v, want %d", got, err, want+1)
		}
	}
	value := ""
	if o.Framing.HasHeader() {
		value = "value"
	}
	ctx = thrift.SetWriteHeaderList(thrift.SetHeader(ctx, "key", "value"), []string{"key"})
	if got, err := client.Header(ctx, "key"); err != nil || got != value {
		t.Errorf("Header: %q, %v, want %q", got, err, value)
	}
	if n := conn.Late(); n > 0 {
		t.Errorf("%d answers were to no call", n)
	}
}

// randomText returns a text: none, 64 KiB, or something short.
func randomText(rng *rand.Rand) string {
	switch kind := rng.IntN(30); {
	case kind == 0:
		return strings.Repeat("x", 64<<10)
	case kind < 4:
		return ""
	}
	letters, text := []rune("ab\x00 é漢😀"), []rune(nil)
	for range rng.IntN(200) {
		text = append(text, letters[rng.IntN(len(letters))])
	}
	return string(text)
}
