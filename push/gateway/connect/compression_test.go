package connect_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1/clientv1connect"
	"github.com/sluice-push/sluice/push/protocol/protobuf/unistream"
	"github.com/sluice-push/sluice/push/protocol/protobuf/unistream/unistreamconnect"
)

// encodings is a client of HTTP that notes what responses say of their compression.
type encodings struct {
	*http.Client
	mu   sync.Mutex
	seen []string // guarded by mu
}

func (e *encodings) Do(r *http.Request) (*http.Response, error) {
	res, err := e.Client.Do(r)
	if err == nil {
		e.mu.Lock()
		e.seen = append(e.seen, res.Header.Get("Connect-Content-Encoding")+res.Header.Get("Grpc-Encoding")+res.Header.Get("Content-Encoding"))
		e.mu.Unlock()
	}
	return res, err
}

func (e *encodings) has(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, seen := range e.seen {
		if seen == name {
			return true
		}
	}
	return false
}

// TestCompression: messages are compressed if compression is on and the client accepts it, in all protocols and forms.
func TestCompression(t *testing.T) {
	data := `"` + strings.Repeat("x", 20_000) + `"`
	for _, v := range variants {
		for _, tt := range []struct {
			name              string
			on, accepts, want bool
		}{{"on", true, true, true}, {"not asked for", true, false, false}, {"off", false, true, false}} {
			t.Run(v.name+", "+tt.name, func(t *testing.T) {
				n := newNode(t, &gateway.Options{Compression: tt.on})
				options := v.options
				if !tt.accepts {
					options = append(options[:len(options):len(options)], connect.WithAcceptCompression("gzip", nil, nil))
				}
				seen := &encodings{Client: n.httpClient(v)}
				client, ctx := clientv1connect.NewClientClient(seen, n.url, options...), testwait.Context(t)
				s, err := client.Consume(ctx, connect.NewRequest(connectCommand()))
				must(t, err)
				defer func() { _ = s.Close() }()
				session := next(t, s).GetConnect()
				_, err = client.Send(ctx, connect.NewRequest(&clientv1.SendCommandsRequest{
					Session: session.GetSession(), Node: session.GetNode(),
					Commands: []*clientv1.Command{{Id: 2, Subscribe: &clientv1.SubscribeRequest{Channel: "a"}}},
				}))
				must(t, err)
				next(t, s)
				if seen.has("gzip") != tt.want {
					t.Errorf("the responses say %q", seen.seen)
				}
				before := n.stats().BytesOut
				n.publish("a", data)
				n.publish("a", `"short"`)
				for _, want := range []string{data, `"short"`} {
					if got := string(next(t, s).GetPush().GetPub().GetData()); got != want {
						t.Errorf("got %.100s", got)
					}
				}
				if !tt.want {
					testwait.True(t, "all of it to be counted as sent", func() bool { return n.stats().BytesOut-before > uint64(len(data)) })
				} else if sent := n.stats().BytesOut - before; sent >= 1000 {
					t.Errorf("%d bytes were sent as %d", len(data), sent)
				}
			})
		}
	}
}

// TestCompressedOneWay: the service of Centrifugo, with an error at the end that is long enough to be compressed.
func TestCompressedOneWay(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			n := newNode(t, &gateway.Options{Compression: true})
			client, ctx := unistreamconnect.NewCentrifugoUniStreamClient(n.httpClient(v), n.url, v.options...), testwait.Context(t)
			s, err := client.Consume(ctx, connect.NewRequest(&unistream.ConnectRequest{Subs: map[string]*unistream.SubscribeRequest{"a": {}}}))
			must(t, err)
			defer func() { _ = s.Close() }()
			next(t, s)
			data := `"` + strings.Repeat("x", 20_000) + `"`
			n.publish("a", data)
			if got := string(next(t, s).GetPub().GetData()); got != data {
				t.Errorf("got %.100s", got)
			}
			bad, err := client.Consume(ctx, connect.NewRequest(&unistream.ConnectRequest{
				Subs: map[string]*unistream.SubscribeRequest{strings.Repeat("long name", 50): {}},
			}))
			must(t, err)
			defer func() { _ = bad.Close() }()
			if bad.Receive() || connect.CodeOf(bad.Err()) != connect.CodeInvalidArgument {
				t.Errorf("got %v, %v", bad.Msg(), bad.Err())
			}
		})
	}
}

// TestCompressedRequests: a compressed request is refused if compression is off, and otherwise bounded by what it inflates to.
func TestCompressedRequests(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			v.options = append(v.options[:len(v.options):len(v.options)], connect.WithSendGzip())
			ask := func(n *node, data string) error {
				s, err := n.client(v).Consume(testwait.Context(t), connect.NewRequest(
					&clientv1.Command{Id: 1, Connect: &clientv1.ConnectRequest{Data: []byte(data)}}))
				must(t, err)
				defer func() { _ = s.Close() }()
				if s.Receive() {
					return nil
				}
				return s.Err()
			}
			if err := ask(newNode(t, nil), `"x"`); connect.CodeOf(err) != connect.CodeUnimplemented {
				t.Errorf("without compression: %v", err)
			}
			n := newNode(t, &gateway.Options{Compression: true, MessageBytes: 10_000})
			if err := ask(n, `"`+strings.Repeat("x", 5000)+`"`); err != nil {
				t.Errorf("a compressed command: %v", err)
			}
			if err := ask(n, `"`+strings.Repeat("x", 5_000_000)+`"`); connect.CodeOf(err) != connect.CodeResourceExhausted {
				t.Errorf("a bomb: %v", err)
			}
			_, err := n.client(v).Send(testwait.Context(t), connect.NewRequest(&clientv1.SendCommandsRequest{
				Session: strings.Repeat("x", 5_000_000), Node: n.hub.ID(),
			}))
			if connect.CodeOf(err) != connect.CodeResourceExhausted {
				t.Errorf("a bomb by Send: %v", err)
			}
		})
	}
}
