package websocket_test

import (
	"testing"

	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

// A connection that is closed as soon as it is made ends like any other: both a handler and a caller of Receive get its end.
func TestCloseAtOnce(t *testing.T) {
	_, url := serve(t, nil, nil)
	for _, engine := range []session.Engine{session.EngineLoop, session.EngineGoroutine} {
		h, told := ends(nil)
		c := websocket.NewClient(h, &websocket.Options{Session: session.Options{Engine: engine}})
		for range 200 {
			conn, err := c.Dial(within(t), url)
			if err != nil {
				t.Fatal(err)
			}
			if err := conn.Close(1000, "done"); err != nil {
				t.Fatal(err)
			}
			if got := get(t, told); got.by != session.ByLocal || got.code != 1000 {
				t.Fatalf("told %+v", got)
			}
		}
		_ = c.Close()
	}
	for range 200 {
		conn := dial(t, url, nil)
		if err := conn.Close(1000, "done"); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Receive(within(t)); websocket.CodeOf(err) != 1000 {
			t.Fatal(err)
		}
	}
}
