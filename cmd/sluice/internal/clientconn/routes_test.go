package clientconn_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/push/protocol"
)

// drained returns the addresses that are tried before home.
func drained(r *clientconn.Routes, home string) (out []string) {
	for next := r.Next(); next != home; next = r.Next() {
		out = append(out, next)
	}
	return out
}

// A client tries the gateways that it was told, in their order, and then the user's address.
func TestRoutesAsk(t *testing.T) {
	var status int
	var answer, asked string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String() + " " + r.Header.Get("Authorization")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	defer s.Close()
	defer http.DefaultClient.CloseIdleConnections()
	for name, tt := range map[string]struct {
		status  int
		answer  string
		want    []string
		refused bool
		wrong   bool
	}{
		"routes": {
			status: 200, answer: `{"routes":[{"url":"wss://a:1"},{"url":"http://b"},{"url":"wss://a:1"},{"url":"ftp://c"},{"url":"x"}]}`,
			want: []string{"https://a:1", "http://b"},
		},
		"none":        {status: 404, answer: "404 page not found"},
		"refused":     {status: 401, answer: "no", refused: true},
		"not a route": {status: 200, answer: "<html>", wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			status, answer = tt.status, tt.answer
			r := clientconn.NewRoutes(s.URL, "t0ken")
			err := r.Ask(t.Context(), "quotes:a b")
			if refused := new(clientconn.Refused); errors.As(err, &refused) != tt.refused || (err != nil) != (tt.refused || tt.wrong) {
				t.Errorf("error %v", err)
			}
			if got := drained(r, s.URL); !slices.Equal(got, tt.want) {
				t.Errorf("routes %v, want %v", got, tt.want)
			}
			if want := "/connection/route?channel=quotes%3Aa+b Bearer t0ken"; asked != want {
				t.Errorf("asked for %q, want %q", asked, want)
			}
		})
	}
	if err := clientconn.NewRoutes("tcp://127.0.0.1:1", "").Ask(t.Context(), ""); err != nil {
		t.Errorf("an address of TCP: %v, want nothing", err)
	}
}

// The answer to the connect command has routes for later, a move is for now, and other messages are none of ours.
func TestRoutesTold(t *testing.T) {
	connect := &protocol.Reply{Kind: protocol.KindConnect}
	connect.Connect.Data = []byte(`{"sluice":{"routes":["http://a","ws://b"]},"other":1}`)
	message := func(text string) *protocol.Reply {
		r := &protocol.Reply{Kind: protocol.KindPush}
		r.Push.Kind, r.Push.Message = protocol.PushMessage, []byte(text)
		return r
	}
	for name, tt := range map[string]struct {
		reply *protocol.Reply
		want  []string
		move  bool
	}{
		"connect":       {connect, []string{"http://a", "http://b"}, false},
		"move":          {message(`{"sluice":{"move":{"routes":["https://c"],"retry_after":5}}}`), []string{"https://c"}, true},
		"another":       {message(`{"sluice":{}}`), []string{"http://old"}, false},
		"no JSON":       {message(`x`), []string{"http://old"}, false},
		"nothing":       {message(``), []string{"http://old"}, false},
		"a publication": {&protocol.Reply{Kind: protocol.KindPush}, []string{"http://old"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := clientconn.NewRoutes("http://home", "")
			r.Set([]string{"http://old"})
			if move := r.Told(tt.reply); move != tt.move {
				t.Errorf("move = %v", move)
			}
			if got := drained(r, "http://home"); !slices.Equal(got, tt.want) {
				t.Errorf("routes %v, want %v", got, tt.want)
			}
		})
	}
}
