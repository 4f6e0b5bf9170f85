package load_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/load"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

// hostile is a server that speaks just enough of the protocol, and does to publications what a test wants. It keeps them all, so that
// clients may resume; whether it gives them what they have missed is up to the test as well.
type hostile struct {
	plain  bool
	let    func(number int) bool                                     // lets a client connect; nil: all
	refuse bool                                                      // ends the connection of a client that is not let in, instead of not answering it
	relay  func(to *reader, n int, line string)                      // delivers publication n, from 1 on; nil: sends it
	answer func(w http.ResponseWriter, r *http.Request, n int) bool  // answers the publisher of n and says whether it is published; nil: yes
	missed func(since int, all []string) (lines []string, told bool) // what a client that resumes gets; nil: all, and it is told so

	ws *websocket.Server

	mu      sync.Mutex
	readers []*reader
	opened  int
	speaker int // the number of the client who published last, if the server is plain
	cutAt   int // how many publications there were when the fourth client left
	calls   int
	log     []string // the publications, as they stand in pushes
}

// reader is a client of a hostile server.
type reader struct {
	number     int // from 0 on, in the order in which they connected
	conn       *websocket.Conn
	subscribed bool
	held       string
}

func (r *reader) send(line string) { _ = r.conn.SendText(line) }

// start serves until the test ends and returns the URL.
func (h *hostile) start(t testing.TB) string {
	t.Helper()
	h.ws = websocket.NewServer(&websocket.Handler{
		Open: h.open, Message: h.message, Close: func(ws *websocket.Conn, _ *session.CloseInfo) { h.forget(ws) },
	}, &websocket.Options{MaxMessage: 1 << 20})
	mux := http.NewServeMux()
	mux.Handle("/connection/websocket", h.ws)
	mux.HandleFunc("/api/publish", h.publish)
	address := serve(t, mux)
	t.Cleanup(func() { _ = h.ws.Close() })
	return "ws://" + address + "/connection/websocket"
}

func (h *hostile) open(ws *websocket.Conn, _ *websocket.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &reader{number: h.opened, conn: ws, subscribed: h.plain}
	h.opened++
	h.readers = append(h.readers, r)
	ws.SetValue(r)
	return nil
}

func (h *hostile) forget(ws *websocket.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, r := range h.readers {
		if r.conn == ws {
			h.readers = append(h.readers[:i], h.readers[i+1:]...)
			if h.opened == 4 {
				h.cutAt = len(h.log)
			}
			return
		}
	}
}

func (h *hostile) message(ws *websocket.Conn, m websocket.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := ws.Value().(*reader)
	if h.plain {
		h.speaker = r.number
		h.distribute(string(m.Data))
		return
	}
	if h.let != nil && !h.let(r.number) {
		if h.refuse {
			ws.CloseNow()
		}
		return
	}
	for line := range strings.SplitSeq(string(m.Data), "\n") {
		var cmd protocol.Command
		if protocol.DecodeCommand([]byte(line), &cmd) != nil {
			continue
		}
		switch cmd.Kind {
		case protocol.KindConnect:
			r.send(fmt.Sprintf(`{"id":%d,"connect":{"client":"c","ping":25,"pong":true}}`, cmd.ID))
		case protocol.KindSubscribe:
			h.subscribe(r, &cmd)
		}
	}
}

func (h *hostile) subscribe(r *reader, cmd *protocol.Command) {
	r.subscribed = true
	s := &cmd.Subscribe
	if !s.Recover {
		r.send(fmt.Sprintf(`{"id":%d,"subscribe":{"recoverable":true,"epoch":"e","offset":%d,"positioned":true}}`, cmd.ID, len(h.log)))
		return
	}
	lines, told := h.log[s.Position.Offset:], true
	if h.missed != nil {
		lines, told = h.missed(int(s.Position.Offset), h.log) //nolint:gosec // a small number
	}
	r.send(fmt.Sprintf(`{"id":%d,"subscribe":{"recoverable":true,"epoch":"e","publications":[%s],"recovered":%v,"offset":%d,"was_recovering":true}}`,
		cmd.ID, strings.Join(lines, ","), told, s.Position.Offset))
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

// distribute sends a publication to all who are subscribed.
func (h *hostile) distribute(data string) {
	n := len(h.log) + 1
	line := data
	if !h.plain {
		pub := fmt.Sprintf(`{"data":%s,"offset":%d}`, data, n)
		h.log = append(h.log, pub)
		line = `{"push":{"channel":"ticks:load-0","pub":` + pub + `}}`
	} else {
		h.log = append(h.log, data)
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

// against runs a load against a hostile server: four clients, of which the second is usually the one that is wronged.
func (h *hostile) against(t *testing.T, spec load.Spec) *load.Result {
	t.Helper()
	spec.URL = h.start(t)
	if spec.Clients == 0 {
		spec.Clients = 4
	}
	if spec.Rate == 0 {
		spec.Rate = 150
	}
	spec.Connect = 1 // so that it is known which is which
	if spec.Patience == 0 {
		spec.Patience = 3 * time.Second
	}
	r, err := load.Run(testContext(t), short(spec), &load.Options{Worker: self(t, "work")})
	must(t, err)
	return r
}
