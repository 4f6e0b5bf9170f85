package main_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"
)

// eventPage is a page of another origin that listens without an SDK.
const eventPage = `<!doctype html><title>events</title><script>
const ask = encodeURIComponent(JSON.stringify({subs: {news: {}}}));
const got = [], errors = [];
let events;
function listen(node) {
	events = new EventSource(node + "/connection/uni_sse?cf_connect=" + ask);
	events.onmessage = ({data}) => {
		const e = JSON.parse(data);
		for (const p of e.connect?.subs?.news?.publications ?? []) got.push(p.data);
		if (e.pub) got.push(e.pub.data);
	};
	events.onerror = () => errors.push(events.readyState);
}
</script>`

// An EventSource comes back by itself from a full node and across a restart, in a page of another origin, and misses nothing
// (Yaffle/EventSource#88, galaxyproject/galaxy#22629, whatwg/html#8297).
func TestEventSourceComesBack(t *testing.T) {
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, eventPage)
	}))
	t.Cleanup(pages.Close)
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	settings := fmt.Sprintf("origins: [%q]\nlimits: {sessions: 1}\nnamespaces: [{name: '', history: {size: 100, age: 1h}}]\n", pages.URL)
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--insecure", "--config", file, "--data", t.TempDir()}
	p := startNode(t, args...)
	b := openTab(t, true)
	b.do(chromedp.Navigate(pages.URL))

	full, _, err := websocket.Dial(t.Context(), "ws://"+p.public+"/connection/websocket", nil) // takes the only place
	if err != nil {
		t.Fatal(err)
	}
	eval[bool](b, fmt.Sprintf("listen(%q), true", "http://"+p.public))
	b.awaitEvents("errors.length > 0 && events.readyState === EventSource.CONNECTING")
	_ = full.CloseNow()
	b.awaitEvents("events.readyState === EventSource.OPEN")
	p.api("publish", map[string]any{"channel": "news", "data": 1})
	b.awaitEvents("got.length === 1")

	if code := p.terminate(); code != 0 {
		t.Errorf("the node ended with code %d", code)
	}
	b.awaitEvents("events.readyState === EventSource.CONNECTING")
	p = startNode(t, append(args, "--listen", p.public)...)
	p.api("publish", map[string]any{"channel": "news", "data": 2})
	b.awaitEvents("JSON.stringify(got) === '[1,2]'")
	if state := eval[int](b, "events.readyState"); state != 1 {
		t.Errorf("the stream is in state %d", state)
	}
}

// awaitEvents waits until an expression about eventPage is true.
func (b *tab) awaitEvents(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserPatience)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(browserPatience))); err != nil {
		b.t.Fatalf("%s does not come true: %v; got, errors, state: %s", expression, err, eval[string](b, "JSON.stringify([got, errors, events?.readyState])"))
	}
}
