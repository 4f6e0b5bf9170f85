package main_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"
	nats "github.com/nats-io/nats.go"

	"github.com/sluice-push/sluice/internal/testwait"
)

// limitChannel is the channel that these tests publish to.
const limitChannel = "big:news"

// limitRefused is the error code for data that exceeds a limit.
const limitRefused = 106

// TestMessageBytes: limits.message_bytes is the same for every way to publish and for every broker. Data of exactly that length is stored and
// delivered by every way to read. One byte more is refused with a permanent error, or counted if the limit runs dry.
func TestMessageBytes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		broker string
		most   int
		dry    bool
	}{
		{"memory", 64 << 10, false},
		{"memory", 1<<20 + 64<<10, true}, // above the default of some parts of a node
		{"nats", 64 << 10, true},
		{"nats", 1<<20 + 64<<10, false},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s/%d/%t", tt.broker, tt.most, tt.dry), func(t *testing.T) {
			dry := ""
			if tt.dry {
				dry = "message_bytes"
			}
			settings := fmt.Sprintf("limits: {message_bytes: %d, dry: [%s]}\nnamespaces: [{name: big, history: {size: 1, age: 1h}}]\n", tt.most, dry)
			ways := limitWays()
			if tt.broker == "nats" {
				address := freePort(t)
				settings += fmt.Sprintf("broker: {nats: {listen: %q}}\n", address)
				ways["NATS"] = overNATS(address)
			} else {
				settings += "broker: {kind: memory}\n"
			}
			node := startNodeWith(t, settings)
			outs := node.limitOuts(t)
			for name, publish := range ways {
				data, code := publish(node, tt.most)
				if code != 0 {
					t.Errorf("%s: %d bytes are refused with code %d", name, tt.most, code)
					continue
				}
				for _, out := range outs {
					if !out.gives(data) {
						t.Errorf("%s: %d bytes do not come out: %s", name, tt.most, out.name)
					}
				}
				more, code := publish(node, tt.most+1)
				want := uint32(limitRefused)
				if tt.dry && name != "NATS" {
					want = 0
				}
				if code != want {
					t.Errorf("%s: one byte more is answered code %d, want %d", name, code, want)
				}
				for _, out := range outs {
					if code == 0 && !out.gives(more) {
						t.Errorf("%s: one byte more does not come out: %s", name, out.name)
					}
				}
			}
			counted := metric(node.scrape()["sluice_limits_exceeded_total"], "limit", "message_bytes", "enforced", strconv.FormatBool(!tt.dry))
			if want := len(limitWays()); counted != float64(want) {
				t.Errorf("the limit was exceeded %v times, want %d", counted, want)
			}
		})
	}
}

// TestQueryOfStreams: a browser that may subscribe to its channels can also resume them, even with the longest possible Last-Event-ID.
func TestQueryOfStreams(t *testing.T) {
	node := startNode(t, "--insecure")
	for _, tt := range []struct {
		channels, bytes int // number of channels, and length of their names
		status          int
	}{
		{128, 150, http.StatusOK},
		{128, 255, http.StatusOK},
		{1, 50_000, http.StatusRequestURITooLong},
	} {
		var names []string
		for i := range tt.channels {
			names = append(names, fmt.Sprintf(`"%0*d":{}`, tt.bytes, i))
		}
		query := url.Values{"cf_connect": {`{"subs":{` + strings.Join(names, ",") + `}}`}}
		for _, last := range []string{"", strings.Repeat("x", 1<<10)} {
			req, err := http.NewRequestWithContext(testwait.Context(t), http.MethodGet, "http://"+node.public+"/connection/uni_sse?"+query.Encode(), nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Last-Event-ID", last)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			first, err := bufio.NewReader(resp.Body).ReadString('\n')
			_ = resp.Body.Close()
			if resp.StatusCode != tt.status || err != nil {
				t.Errorf("%d channels of %d bytes: %s, %q, %v", tt.channels, tt.bytes, resp.Status, first, err)
			}
		}
	}
}

// limitWay publishes size bytes, as its way counts them. It returns the data and the error code, 0 if there is no error.
type limitWay func(node *process, size int) (data string, code uint32)

// limitText returns size bytes of JSON that no other call has returned.
func limitText(size int) string {
	limitTexts++
	text := fmt.Sprintf("%09d", limitTexts)
	return `"` + text + strings.Repeat("x", size-len(text)-2) + `"`
}

var limitTexts int

// limitWays returns the ways to publish that work with every broker.
func limitWays() map[string]limitWay {
	return map[string]limitWay{
		"data": func(node *process, size int) (string, uint32) {
			data := limitText(size)
			return data, node.refusalOf("publish", "", []byte(`{"channel":"`+limitChannel+`","data":`+data+`}`))
		},
		"b64data": func(node *process, size int) (string, uint32) {
			data := limitText(size)
			body := `{"channel":"` + limitChannel + `","b64data":"` + base64.StdEncoding.EncodeToString([]byte(data)) + `"}`
			return data, node.refusalOf("publish", "", []byte(body))
		},
		"broadcast": func(node *process, size int) (string, uint32) {
			data := limitText(size)
			return data, node.refusalOf("broadcast", "", []byte(`{"channels":["`+limitChannel+`"],"data":`+data+`}`))
		},
		"gzip": func(node *process, size int) (string, uint32) {
			data := limitText(size)
			var body bytes.Buffer
			z := gzip.NewWriter(&body)
			_, _ = z.Write([]byte(`{"channel":"` + limitChannel + `","data":` + data + `}`)) // writes to memory, so no error is possible
			_ = z.Close()
			return data, node.refusalOf("publish", "gzip", body.Bytes())
		},
		"WebSocket": func(node *process, size int) (string, uint32) {
			const before, after = `{"id":2,"publish":{"channel":"` + limitChannel + `","data":`, `}}`
			data := limitText(size - len(before) - len(after))
			c := node.limitClient("{}")
			defer func() { _ = c.CloseNow() }()
			return data, limitAsk(node.t, c, before+data+after).Error.Code
		},
	}
}

// overNATS publishes without Sluice. One byte too many means one more than the NATS server accepts. That is more than the limit, because the
// server allows for the fields around the data.
func overNATS(address string) limitWay {
	return func(node *process, size int) (string, uint32) {
		conn, err := nats.Connect("nats://" + address)
		if err != nil {
			node.t.Fatal(err)
		}
		defer conn.Close()
		if size%2 == 1 {
			size = int(conn.MaxPayload()) + 1
		}
		data := limitText(size)
		answer, err := conn.Request("sluice.big.s."+limitChannel, []byte(data), faultTime)
		switch {
		case errors.Is(err, nats.ErrMaxPayload):
			return data, limitRefused
		case err != nil || !strings.Contains(string(answer.Data), `"seq"`):
			node.t.Fatalf("a publication over NATS: %v %v", err, answer)
		}
		return data, 0
	}
}

// refusalOf calls a method of the API and returns the code of its error.
func (p *process) refusalOf(method, encoding string, body []byte) uint32 {
	p.t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+p.public+"/api/"+method, bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	type outcome struct{ Error struct{ Code uint32 } }
	var reply struct {
		outcome
		Result struct{ Responses []outcome }
	}
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		p.t.Fatal(err)
	}
	if len(reply.Result.Responses) > 0 {
		return reply.Result.Responses[0].Error.Code
	}
	return reply.Error.Code
}

// limitReply holds the fields of a reply that these tests check.
type limitReply struct {
	ID    uint32
	Error struct{ Code uint32 }
	Push  limitPush

	Subscribe, History struct{ Publications []limitPublication }
}

type limitPush struct {
	Connect struct {
		Subs map[string]struct{ Publications []limitPublication }
	}
	Pub limitPublication
}

type limitPublication struct{ Data json.RawMessage }

// limitClient returns a connected WebSocket client.
func (p *process) limitClient(connect string) *websocket.Conn {
	p.t.Helper()
	c, _, err := websocket.Dial(testwait.Context(p.t), "ws://"+p.public+"/connection/websocket", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	c.SetReadLimit(-1)
	if code := limitAsk(p.t, c, `{"id":1,"connect":`+connect+`}`).Error.Code; code != 0 {
		p.t.Fatalf("it cannot connect: %d", code)
	}
	return c
}

// limitAsk sends a command and returns the reply.
func limitAsk(t testing.TB, c *websocket.Conn, command string) limitReply {
	t.Helper()
	if err := c.Write(testwait.Context(t), websocket.MessageText, []byte(command)); err != nil {
		t.Fatal(err)
	}
	return limitNext(t, c, func(r *limitReply) bool { return r.ID != 0 })
}

// limitNext returns the next reply or push that matches.
func limitNext(t testing.TB, c *websocket.Conn, wanted func(*limitReply) bool) limitReply {
	t.Helper()
	for {
		_, frame, err := c.Read(testwait.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(frame) {
			var r limitReply
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatal(err)
			}
			if wanted(&r) {
				return r
			}
		}
	}
}

// limitOut is a way to read publications. It reports whether the newest one arrives as it was published.
type limitOut struct {
	name  string
	gives func(data string) bool
}

// limitOuts returns the ways to read. The ways that wait come first, because a publication made without Sluice may arrive later.
func (p *process) limitOuts(t *testing.T) []limitOut {
	t.Helper()
	const since = `{"id":2,"subscribe":{"channel":"` + limitChannel + `","recover":true}}`
	live := p.limitClient("{}")
	t.Cleanup(func() { _ = live.CloseNow() })
	limitAsk(t, live, `{"id":2,"subscribe":{"channel":"`+limitChannel+`"}}`)
	events := p.limitEvents(t, "{}")
	return []limitOut{
		{"WebSocket", func(data string) bool {
			got := limitNext(t, live, func(r *limitReply) bool { return len(r.Push.Pub.Data) > 0 })
			return string(got.Push.Pub.Data) == data
		}},
		{"SSE", func(data string) bool { return string(events().Pub.Data) == data }},
		{"WebSocket, missed", func(data string) bool {
			c := p.limitClient("{}")
			defer func() { _ = c.CloseNow() }()
			return isLast(limitAsk(t, c, since).Subscribe.Publications, data)
		}},
		{"SSE, missed", func(data string) bool {
			return isLast(p.limitEvents(t, `{"recover":true}`)().Connect.Subs[limitChannel].Publications, data)
		}},
		{"WebSocket, history", func(data string) bool {
			c := p.limitClient("{}")
			defer func() { _ = c.CloseNow() }()
			return isLast(limitAsk(t, c, `{"id":2,"history":{"channel":"`+limitChannel+`","limit":10}}`).History.Publications, data)
		}},
		{"API, history", func(data string) bool {
			var want any
			_ = json.Unmarshal([]byte(data), &want) // data is valid JSON
			found, _ := p.api("history", map[string]any{"channel": limitChannel, "limit": 10})["publications"].([]any)
			last, isObject := found[len(found)-1].(map[string]any)
			return isObject && last["data"] == want
		}},
	}
}

func isLast(found []limitPublication, data string) bool {
	return len(found) > 0 && string(found[len(found)-1].Data) == data
}

// limitEvents opens an event stream of the channel. It returns a function that returns the next event with publications. If the stream begins
// with publications in its first event, that event comes first.
func (p *process) limitEvents(t *testing.T, subscription string) (next func() limitPush) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	ask := url.QueryEscape(`{"subs":{"` + limitChannel + `":` + subscription + `}}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.public+"/connection/uni_sse?cf_connect="+ask, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("no stream: %v", err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewReader(resp.Body)
	return func() limitPush {
		t.Helper()
		stop := context.AfterFunc(testwait.Context(t), cancel)
		defer stop()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			var e limitPush
			if data, isData := strings.CutPrefix(line, "data: "); isData && json.Unmarshal([]byte(data), &e) == nil {
				if len(e.Pub.Data) > 0 || len(e.Connect.Subs[limitChannel].Publications) > 0 {
					return e
				}
			}
		}
	}
}
