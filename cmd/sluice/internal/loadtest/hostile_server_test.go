package loadtest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	clientjson "github.com/sluice-push/sluice/push/protocol/json"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

// hostile is a server that implements just enough of the protocol, and manipulates publications as a test asks. It keeps all of them, so that
// clients can resume. The test also decides which missed publications a resuming client gets.
type hostile struct {
	plain  bool
	form   string                                                    // loadtest.JSON, the default, or loadtest.Protobuf
	stream bool                                                      // clients connect by http_stream
	let    func(number int) bool                                     // decides whether a client may connect; nil: all may
	behind int                                                       // how many publications a client has to have missed when it resumes; sooner its connection ends
	relay  func(to *reader, n int, line string)                      // delivers publication n, from 1 on; nil: sends it unchanged
	answer func(w http.ResponseWriter, r *http.Request, n int) bool  // answers publish request n and reports whether to publish it; nil: yes
	missed func(since int, all []string) (lines []string, told bool) // what a resuming client gets, and whether it is told that this is all; nil: all

	ws *websocket.Server

	mu      sync.Mutex // guards the fields below, and all writes to clients
	readers []*reader
	opened  int
	speaker int // plain: the number of the client that published last
	calls   int
	pongs   int      // answers to pings, of clients of streams
	log     []string // the publications, as JSON has them in pushes
}

// reader is a client of a hostile server. One of conn and body is set.
type reader struct {
	number     int // from 0 on, in the order of connecting
	conn       *websocket.Conn
	op         websocket.Opcode
	body       http.ResponseWriter // of a stream
	ended      chan struct{}       // closed when the server ends the stream
	subscribed bool
	held       string
}

// send sends one or more messages.
func (r *reader) send(messages string) {
	if r.conn != nil {
		_ = r.conn.Send(r.op, []byte(messages))
		return
	}
	_, _ = io.WriteString(r.body, messages)
	_ = http.NewResponseController(r.body).Flush()
}

// end ends the connection without a word.
func (r *reader) end() {
	if r.conn != nil {
		r.conn.CloseNow()
	} else {
		close(r.ended)
	}
}

// start starts the server, which runs until the test ends, and returns its URL.
func (h *hostile) start(t testing.TB) string {
	t.Helper()
	h.ws = websocket.NewServer(&websocket.Handler{
		Open: h.open, Message: h.message, Close: func(ws *websocket.Conn, _ *session.CloseInfo) { h.forget(ws.Value().(*reader)) },
	}, &websocket.Options{MaxMessage: 1 << 20, Subprotocols: []string{"centrifuge-protobuf"}})
	mux := http.NewServeMux()
	mux.Handle("/connection/websocket", h.ws)
	mux.HandleFunc("/connection/http_stream", h.serveStream)
	mux.HandleFunc("/emulation", h.emulate)
	mux.HandleFunc("/api/publish", h.publish)
	address := serve(t, mux)
	t.Cleanup(func() { _ = h.ws.Close() })
	if h.stream {
		return "http://" + address
	}
	return "ws://" + address + "/connection/websocket"
}

func (h *hostile) open(ws *websocket.Conn, _ *websocket.Request) error {
	r := &reader{conn: ws, op: websocket.OpText}
	if h.form == loadtest.Protobuf {
		r.op = websocket.OpBinary
	}
	ws.SetValue(r)
	h.add(r)
	return nil
}

func (h *hostile) add(r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.number, r.subscribed = h.opened, h.plain
	h.opened++
	h.readers = append(h.readers, r)
}

func (h *hostile) forget(r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.readers, r); i >= 0 {
		h.readers = slices.Delete(h.readers, i, i+1)
	}
}

// serveStream serves a client of the transport http_stream.
func (h *hostile) serveStream(w http.ResponseWriter, request *http.Request) {
	commands, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	r := &reader{body: w, ended: make(chan struct{})}
	h.add(r)
	defer h.forget(r) // nothing is written afterwards
	h.execute(r, commands)
	select {
	case <-r.ended:
	case <-request.Context().Done():
	}
}

// emulate takes commands of clients of streams, which are answers to pings.
func (h *hostile) emulate(w http.ResponseWriter, _ *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pongs++
	w.WriteHeader(http.StatusNoContent)
}

func (h *hostile) message(ws *websocket.Conn, m websocket.Message) {
	h.execute(ws.Value().(*reader), m.Data)
}

// execute executes a frame of commands.
func (h *hostile) execute(r *reader, frame []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.plain {
		h.speaker = r.number
		h.distribute(string(frame))
		return
	}
	if h.let != nil && !h.let(r.number) {
		return
	}
	for _, cmd := range h.decode(frame) {
		switch cmd.Kind {
		case protocol.KindConnect:
			connected := protocol.ConnectResult{Client: "c", Ping: 25, Pong: true, Session: "s", Node: "n"}
			r.send(h.encode(&protocol.Reply{ID: cmd.ID, Kind: protocol.KindConnect, Connect: connected}))
		case protocol.KindSubscribe:
			h.subscribe(r, &cmd)
		}
	}
}

// decode returns the commands of a frame, without malformed ones.
func (h *hostile) decode(frame []byte) (out []protocol.Command) {
	var c protocol.Command
	if h.form != loadtest.Protobuf {
		for line, rest := clientjson.NextLine(frame); line != nil; line, rest = clientjson.NextLine(rest) {
			if clientjson.DecodeCommand(line, &c) == nil {
				out = append(out, c)
			}
		}
		return out
	}
	for message, rest, _ := protobuf.Next(frame); message != nil; message, rest, _ = protobuf.Next(rest) {
		if protobuf.DecodeCommand(message, &c) == nil {
			out = append(out, c)
		}
	}
	return out
}

// encode returns a reply as a message, which ends in a newline in a stream of lines.
func (h *hostile) encode(reply *protocol.Reply) string {
	switch {
	case h.form == loadtest.Protobuf:
		return string(protobuf.AppendReply(nil, reply))
	case h.stream:
		return string(clientjson.AppendReply(nil, reply)) + "\n"
	}
	return string(clientjson.AppendReply(nil, reply))
}

// push returns a push to the channel of all clients.
func (h *hostile) push(p protocol.Push) string {
	p.Channel = "ticks:load-0"
	return h.encode(&protocol.Reply{Kind: protocol.KindPush, Push: p})
}

func (h *hostile) subscribe(r *reader, cmd *protocol.Command) {
	s := &cmd.Subscribe
	if s.Recover && len(h.log) < int(s.Position.Offset)+h.behind { //nolint:gosec // a small number
		r.end()
		return
	}
	r.subscribed = true
	out := protocol.SubscribeResult{Recoverable: true, Positioned: true, Position: push.Position{Epoch: "e", Offset: uint64(len(h.log))}}
	if s.Recover {
		lines, told := h.log[s.Position.Offset:], true
		if h.missed != nil {
			lines, told = h.missed(int(s.Position.Offset), h.log) //nolint:gosec // a small number
		}
		out.WasRecovering, out.Recovered, out.Position.Offset = true, told, s.Position.Offset
		for _, line := range lines {
			var p struct {
				Data   json.RawMessage
				Offset uint64
			}
			_ = json.Unmarshal([]byte(line), &p) // distribute has made it
			out.Publications = append(out.Publications, push.Publication{Data: p.Data, Offset: p.Offset})
		}
	}
	r.send(h.encode(&protocol.Reply{ID: cmd.ID, Kind: protocol.KindSubscribe, Subscribe: out}))
}

func (h *hostile) publish(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Channel string          `json:"channel"`
		Data    json.RawMessage `json:"data"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	if h.answer == nil {
		_, _ = fmt.Fprintf(w, `{"result":{"offset":%d}}`, len(h.log)+1)
	} else if !h.answer(w, r, h.calls) {
		return
	}
	h.distribute(string(body.Data))
}

// distribute sends a publication to all subscribers.
func (h *hostile) distribute(data string) {
	n := len(h.log) + 1
	line := data
	if h.plain {
		h.log = append(h.log, data)
	} else {
		h.log = append(h.log, fmt.Sprintf(`{"data":%s,"offset":%d}`, data, n))
		line = h.push(protocol.Push{Kind: protocol.PushPublication, Publication: push.Publication{Data: []byte(data), Offset: uint64(n)}}) //nolint:gosec // a count
	}
	for _, r := range h.readers {
		switch {
		case !r.subscribed:
		case h.relay == nil:
			r.send(line)
		default:
			h.relay(r, n, line)
		}
	}
}

// against runs a load against the server, with four clients unless the spec says otherwise.
func (h *hostile) against(t *testing.T, spec loadtest.Spec) *loadtest.Result {
	t.Helper()
	spec.URL = h.start(t)
	if spec.Protocol == "" {
		spec.Protocol = h.form
	}
	if h.stream {
		spec.Transport = "http_stream"
	}
	if spec.Clients == 0 {
		spec.Clients = 4
	}
	if spec.Rate == 0 {
		spec.Rate = 150
	}
	spec.Connect = 1 // so that the clients connect in a known order
	if spec.Patience == 0 {
		spec.Patience = 3 * time.Second
	}
	r, err := loadtest.Run(testwait.Context(t), short(spec), &loadtest.Options{Worker: self(t, "work")})
	must(t, err)
	return r
}
