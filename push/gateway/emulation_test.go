package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/httpstream"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/pushtest"
)

// emulationNode is a node without a network: requests are served by calls.
type emulationNode struct {
	t       *testing.T
	hub     *hub.Hub
	gateway *gateway.Gateway
	handler http.Handler
}

// withEmulation runs a test against two nodes of one broker, in fake time. The broker of the first can be made to fail.
func withEmulation(t *testing.T, o *gateway.Options, test func(t *testing.T, faulty *pushtest.Faulty, a, b *emulationNode)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		shared := memory.New(nil)
		faulty := pushtest.NewFaulty(shared)
		a, b := newEmulationNode(t, faulty, o), newEmulationNode(t, shared, o)
		test(t, faulty, a, b)
		for _, n := range []*emulationNode{a, b} {
			must(t, n.gateway.Shutdown(t.Context()))
			must(t, n.hub.Close())
		}
		must(t, faulty.Close())
	})
}

func newEmulationNode(t *testing.T, b broker.Broker, o *gateway.Options) *emulationNode {
	t.Helper()
	h, err := hub.New(t.Context(), shortMessages{b}, spaces(), nil)
	must(t, err)
	g := gateway.New(h, o, httpstream.New)
	return &emulationNode{t, h, g, g.Handler()}
}

// post sends commands as SDKs do it, and returns the status.
func (n *emulationNode) post(node, session, commands string) int {
	body, err := json.Marshal(map[string]string{"node": node, "session": session, "data": commands})
	must(n.t, err)
	return n.postBody(string(body), nil)
}

// postBody sends a request and returns the status. A refusal for now has to say when the client sends the commands again.
func (n *emulationNode) postBody(body string, header http.Header) int {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, gateway.EmulationPath, strings.NewReader(body))
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	n.handler.ServeHTTP(w, r)
	isForNow := w.Code == http.StatusTooManyRequests || w.Code == http.StatusServiceUnavailable
	if got := w.Header().Get("Retry-After"); isForNow != (got == "1") {
		n.t.Errorf("status %d with Retry-After %q", w.Code, got)
	}
	return w.Code
}

// published returns what was published in a channel.
func (n *emulationNode) published(channel string) (all []string) {
	n.t.Helper()
	found, err := n.hub.History(n.t.Context(), channel, hub.HistoryRequest{Limit: -1})
	must(n.t, err)
	for _, e := range found.Entries {
		all = append(all, string(e.Data))
	}
	return all
}

// emulatedClient is the stream of a client, which is read by the test.
type emulatedClient struct {
	lines *bufio.Scanner
	told  struct{ Client, Session, Node string }
	close func()
}

// pipeWriter is a response whose body is read by a client that may be slow.
type pipeWriter struct {
	*io.PipeWriter
	header http.Header
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(int) {}

func (w *pipeWriter) Flush() {}

// connect connects a client, which is closed at the end of the test if not before.
func (n *emulationNode) connect() *emulatedClient {
	n.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, httpstream.Path, strings.NewReader(`{"id":1,"connect":{}}`))
	body, out := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.handler.ServeHTTP(&pipeWriter{out, http.Header{}}, r)
		_ = out.Close()
	}()
	c := &emulatedClient{lines: bufio.NewScanner(body)}
	c.lines.Buffer(nil, 1<<20)
	c.close = func() {
		cancel()
		_ = body.Close()
		<-done
	}
	var reply struct {
		Connect *struct{ Client, Session, Node string }
	}
	if !c.lines.Scan() || json.Unmarshal(c.lines.Bytes(), &reply) != nil || reply.Connect == nil {
		n.t.Fatalf("connect was answered %s", c.lines.Bytes())
	}
	c.told = *reply.Connect
	return c
}

// discard reads everything until the stream ends.
func (c *emulatedClient) discard() {
	go func() {
		for c.lines.Scan() {
			continue
		}
	}()
}

// TestEmulationRefusals: a request that cannot be for a client is refused, and counted.
func TestEmulationRefusals(t *testing.T) {
	o := &gateway.Options{MessageBytes: 1 << 10}
	withEmulation(t, o, func(t *testing.T, _ *pushtest.Faulty, a, b *emulationNode) {
		c := a.connect()
		defer c.close()
		body := func(node, session, data string) string {
			return fmt.Sprintf(`{"node":%q,"session":%q,"data":%q}`, node, session, data)
		}
		const pong = "{}"
		for _, tt := range []struct {
			name   string
			at     *emulationNode
			body   string
			header http.Header
			status int
			count  func(r *gateway.Refused) uint64
		}{
			{"fine", a, body(a.hub.ID(), c.told.Session, pong), nil, http.StatusNoContent, nil},
			{"fine, at another node", b, body(a.hub.ID(), c.told.Session, pong), nil, http.StatusNoContent, nil},
			{"nothing to do", a, body(a.hub.ID(), c.told.Session, ""), nil, http.StatusNoContent, nil},
			{"wrong session", a, body(a.hub.ID(), "wrong", pong), nil, http.StatusNotFound, session},
			{"wrong session, at another node", b, body(a.hub.ID(), "wrong", pong), nil, http.StatusNotFound, session},
			{"session of another node", a, body(b.hub.ID(), c.told.Session, pong), nil, http.StatusNotFound, session},
			{"unknown node", a, body("nowhere", c.told.Session, pong), nil, http.StatusNotFound, session},
			{"identity for secret", a, body(a.hub.ID(), c.told.Client, pong), nil, http.StatusNotFound, session},
			{"no session", a, body(a.hub.ID(), "", pong), nil, http.StatusBadRequest, request},
			{"no node", a, body("", c.told.Session, pong), nil, http.StatusBadRequest, request},
			{"no JSON", a, `{"node":`, nil, http.StatusBadRequest, request},
			{"nothing", a, ``, nil, http.StatusBadRequest, request},
			{"escapes", a, fmt.Sprintf(`{"node":%q,"session":%q,"data":"\u007b\u007d"}`, a.hub.ID(), c.told.Session), nil, http.StatusNoContent, nil},
			{
				"bytes that are not UTF-8", a, `{"node":"` + a.hub.ID() + `","session":"` + c.told.Session + `","data":"{\"id\":2,\"ping\":\"` + "\xff" + `\"}"}`,
				nil, http.StatusBadRequest, request,
			},
			{
				"half a surrogate pair", a, `{"node":"` + a.hub.ID() + `","session":"` + c.told.Session + `","data":"{\"id\":2,\"ping\":\"\ud800\"}"}`,
				nil, http.StatusBadRequest, request,
			},
			{"no Protobuf", a, "\xff", http.Header{"Content-Type": {"application/octet-stream"}}, http.StatusBadRequest, request},
			{"too large a frame", a, body(a.hub.ID(), c.told.Session, strings.Repeat(" ", 1025)), nil, http.StatusBadRequest, request},
			{"too large a body", a, strings.Repeat(" ", 4<<10), nil, http.StatusRequestEntityTooLarge, request},
			{
				"another origin", a, body(a.hub.ID(), c.told.Session, pong),
				http.Header{"Origin": {"https://evil.example"}},
				http.StatusForbidden, func(r *gateway.Refused) uint64 { return r.Origin },
			},
		} {
			before := tt.at.gateway.Stats().Refused
			if got := tt.at.postBody(tt.body, tt.header); got != tt.status {
				t.Errorf("%s: status %d, want %d", tt.name, got, tt.status)
			}
			after := tt.at.gateway.Stats().Refused
			if tt.count == nil && after != before || tt.count != nil && tt.count(&after) != tt.count(&before)+1 {
				t.Errorf("%s: counted %+v, before %+v", tt.name, after, before)
			}
		}
	})
}

func session(r *gateway.Refused) uint64 { return r.Session }

func request(r *gateway.Refused) uint64 { return r.Request }

// gate is a Permit hook in which publishing to the channels gate and again waits, and that counts how many commands are carried out at a time.
type gate struct {
	open, again  chan struct{}
	active, most atomic.Int32
}

func (g *gate) permit(_ context.Context, _ *gateway.Identity, r *gateway.PermitRequest) (gateway.Permission, error) {
	if now := g.active.Add(1); now > g.most.Load() {
		g.most.Store(now)
	}
	defer g.active.Add(-1)
	switch r.Channel {
	case "gate":
		<-g.open
	case "again":
		<-g.again
	}
	<-time.After(time.Microsecond) // others may run, if they can
	return gateway.Permission{}, nil
}

func publishCommand(id int, channel, data string) string {
	return fmt.Sprintf(`{"id":%d,"publish":{"channel":%q,"data":%s}}`, id, channel, data)
}

// TestEmulationInbox: of a client whose commands are not carried out only so many wait, by number and by bytes, whatever node they come to. When
// they are carried out, in their order, there is room again.
func TestEmulationInbox(t *testing.T) {
	for name, tt := range map[string]struct {
		frameBytes int
		command    func(i int) string
		most       int
	}{
		"frames": {64 << 10, func(i int) string { return publishCommand(i+2, "a", fmt.Sprint(i)) }, gateway.MostInbox},
		"bytes":  {1 << 10, func(i int) string { return publishCommand(i+2, "a", fmt.Sprintf("%60d", i)) }, 1 << 10 / 104},
	} {
		t.Run(name, func(t *testing.T) {
			g := &gate{}
			o := &gateway.Options{MessageBytes: tt.frameBytes, Permit: g.permit, PingInterval: -1}
			withEmulation(t, o, func(t *testing.T, _ *pushtest.Faulty, a, b *emulationNode) {
				g.open, g.again = make(chan struct{}), make(chan struct{}) // of the bubble
				c := a.connect()
				defer c.close()
				c.discard()
				if got := a.post(a.hub.ID(), c.told.Session, publishCommand(1, "gate", "1")); got != http.StatusNoContent {
					t.Fatalf("status %d", got)
				}
				synctest.Wait()
				var want []string
				for i := range 2 * gateway.MostInbox {
					at := []*emulationNode{a, b}[i%2]
					status := at.post(a.hub.ID(), c.told.Session, tt.command(i))
					if status == http.StatusTooManyRequests {
						break
					}
					if status != http.StatusNoContent {
						t.Fatalf("command %d: status %d", i, status)
					}
					want = append(want, fmt.Sprint(i))
				}
				if len(want) < tt.most-2 || len(want) > tt.most+2 {
					t.Errorf("%d commands wait, at most %d may", len(want), tt.most)
				}
				if got := a.gateway.Stats().Limited.Inbox + b.gateway.Stats().Limited.Inbox; got != 1 {
					t.Errorf("a full inbox is counted %d times", got)
				}
				close(g.open)
				synctest.Wait()
				<-time.After(time.Minute)
				got := a.published("a")
				for i := range got {
					got[i] = strings.TrimSpace(got[i])
				}
				if !slices.Equal(got, want) {
					t.Errorf("%d commands were carried out, not the %d that were taken in their order", len(got), len(want))
				}
				for i, channel := range []string{"again", "a", "a", "a"} {
					if got := b.post(a.hub.ID(), c.told.Session, publishCommand(i+2, channel, "1")); got != http.StatusNoContent {
						t.Errorf("afterwards: status %d", got)
					}
				}
				close(g.again)
			})
		})
	}
}

// TestEmulationAfterEnd: commands that wait when the connection ends are not carried out, and later ones are for no session.
func TestEmulationAfterEnd(t *testing.T) {
	for name, end := range map[string]func(n *emulationNode, c *emulatedClient){
		"by the server": func(n *emulationNode, c *emulatedClient) {
			must(n.t, n.hub.Disconnect(n.t.Context(), hub.Target{Client: c.told.Client}, push.DisconnectForceReconnect, nil))
		},
		"by the client": func(_ *emulationNode, c *emulatedClient) { c.close() },
	} {
		t.Run(name, func(t *testing.T) {
			g := &gate{}
			withEmulation(t, &gateway.Options{Permit: g.permit}, func(t *testing.T, _ *pushtest.Faulty, a, b *emulationNode) {
				g.open, g.again = make(chan struct{}), make(chan struct{}) // of the bubble
				c := a.connect()
				c.discard()
				for i, channel := range []string{"gate", "a", "a"} {
					if got := a.post(a.hub.ID(), c.told.Session, publishCommand(i+2, channel, "1")); got != http.StatusNoContent {
						t.Fatalf("status %d", got)
					}
				}
				synctest.Wait()
				end(a, c)
				synctest.Wait()
				for _, at := range []*emulationNode{a, b} {
					if got := at.post(a.hub.ID(), c.told.Session, publishCommand(9, "a", "1")); got != http.StatusNotFound {
						t.Errorf("after the end: status %d", got)
					}
				}
				close(g.open)
				synctest.Wait()
				if got := a.published("a"); len(got) != 0 {
					t.Errorf("after the end %d commands were carried out", len(got))
				}
				c.close()
			})
		})
	}
}

// TestEmulationOneAtATime: however many requests come at a time, to whichever node, commands of a client are carried out one after the other, and
// those of one sender in order.
func TestEmulationOneAtATime(t *testing.T) {
	g := &gate{}
	o := &gateway.Options{Permit: g.permit, CommandsPerSession: -1}
	withEmulation(t, o, func(t *testing.T, _ *pushtest.Faulty, a, b *emulationNode) {
		c := a.connect()
		defer c.close()
		c.discard()
		const senders, each = 8, 50
		var sending sync.WaitGroup
		for s := range senders {
			sending.Go(func() {
				for i := range each {
					at := []*emulationNode{a, b}[(s+i)%2]
					if got := at.post(a.hub.ID(), c.told.Session, publishCommand(i+2, "a", fmt.Sprintf("[%d,%d]", s, i))); got != http.StatusNoContent {
						t.Errorf("status %d", got)
					}
				}
			})
		}
		sending.Wait()
		<-time.After(time.Minute)
		var next [senders]int
		for _, data := range a.published("a") {
			var s, i int
			_, err := fmt.Sscanf(data, "[%d,%d]", &s, &i)
			must(t, err)
			if i != next[s] {
				t.Fatalf("command %d of sender %d came after %d others", i, s, next[s])
			}
			next[s]++
		}
		for s := range next {
			if next[s] != each {
				t.Errorf("%d commands of sender %d were carried out", next[s], s)
			}
		}
		if most := g.most.Load(); most != 1 {
			t.Errorf("%d commands of a client were carried out at a time", most)
		}
	})
}

// TestEmulationSecrets: each client has a secret of its own that cannot be guessed.
func TestEmulationSecrets(t *testing.T) {
	withEmulation(t, nil, func(t *testing.T, _ *pushtest.Faulty, a, b *emulationNode) {
		secrets := map[string]bool{}
		const clients = 100
		for i := range clients {
			c := []*emulationNode{a, b}[i%2].connect()
			defer c.close()
			secrets[c.told.Session] = true
			if len(c.told.Session) < 26 { // base32 of 128 bits
				t.Errorf("a secret %q", c.told.Session)
			}
		}
		if len(secrets) != clients {
			t.Errorf("%d clients have %d secrets", clients, len(secrets))
		}
	})
}

// TestEmulationQuestions: only so many frames are on their way to nodes that do not answer; the others are refused at once. None waits for ever.
func TestEmulationQuestions(t *testing.T) {
	withEmulation(t, nil, func(t *testing.T, _ *pushtest.Faulty, a, b *emulationNode) {
		b.hub.ReceiveNode(func([]byte) {}) // it answers nothing
		const questions = 3 * gateway.MostQuestions
		answers := make(chan error, questions)
		for range questions {
			go func() { answers <- a.gateway.Emulate(t.Context(), b.hub.ID(), "secret", []byte("{}")) }()
		}
		synctest.Wait()
		if got := len(answers); got != questions-gateway.MostQuestions {
			t.Errorf("%d of %d questions are answered at once", got, questions)
		}
		full, unknown := 0, 0
		for range questions {
			switch err := <-answers; {
			case errors.Is(err, gateway.ErrInboxFull):
				full++
			case errors.Is(err, gateway.ErrNoSession):
				unknown++
			default:
				t.Errorf("a question got %v", err)
			}
		}
		if full != questions-gateway.MostQuestions || unknown != gateway.MostQuestions {
			t.Errorf("%d questions were refused, and %d not answered", full, unknown)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { answers <- a.gateway.Emulate(ctx, b.hub.ID(), "secret", []byte("{}")) }()
		synctest.Wait()
		cancel()
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that is gone got %v", err)
		}
	})
}

// TestEmulationAnswers: a node whose broker is slow has only so many answers under way. What other nodes send otherwise does no harm.
func TestEmulationAnswers(t *testing.T) {
	withEmulation(t, nil, func(t *testing.T, faulty *pushtest.Faulty, a, b *emulationNode) {
		release := faulty.Block(pushtest.OpTell)
		send := func(message string) { must(t, b.hub.SendNode(t.Context(), a.hub.ID(), []byte(message))) }
		for i := range 2 * gateway.MostQuestions {
			send(fmt.Sprintf(`{"n":%d,"from":%q,"secret":"wrong","frame":"e30="}`, i, b.hub.ID()))
			if i%10 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if got := a.gateway.AnswersUnderWay(); got != gateway.MostQuestions {
			t.Errorf("%d answers are under way, at most %d may be", got, gateway.MostQuestions)
		}
		release()
		synctest.Wait()
		if got := a.gateway.AnswersUnderWay(); got != 0 {
			t.Errorf("%d answers are under way for ever", got)
		}
		for _, nonsense := range []string{``, `{`, `[]`, `{"n":1}`, `{"n":1,"result":"taken"}`, `{"n":-1}`, `{"n":1,"from":"nowhere"}`} {
			send(nonsense)
		}
		synctest.Wait()
		c := a.connect()
		defer c.close()
		if got := b.post(a.hub.ID(), c.told.Session, "{}"); got != http.StatusNoContent {
			t.Errorf("afterwards: status %d", got)
		}
	})
}
