package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"
)

// eventPage is a page of another origin that receives events without an SDK.
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

// An EventSource in a page of another origin reconnects by itself, to a node that was full and after a restart, and misses nothing
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

	full, _, err := websocket.Dial(t.Context(), "ws://"+p.public+"/connection/websocket", nil) // takes the only place for a client
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

// channelsPage is a page of another origin that receives events of many channels without an SDK. It stores the publications of each channel as a
// set, because events without an id are repeated after a disconnection.
const channelsPage = `<!doctype html><title>events</title><script>
const got = {}, hellos = [], errors = [];
let events;
function listen(node, names) {
	const ask = encodeURIComponent(JSON.stringify({subs: Object.fromEntries(names.map(name => [name, {}]))}));
	const keep = (name, p) => (got[name] ??= new Set()).add(p.data);
	events = new EventSource(node + "/connection/uni_sse?cf_connect=" + ask);
	events.onmessage = ({data}) => {
		const e = JSON.parse(data);
		if (e.connect) hellos.push(Object.values(e.connect.subs));
		for (const [name, sub] of Object.entries(e.connect?.subs ?? {})) for (const p of sub.publications ?? []) keep(name, p);
		if (e.pub) keep(e.channel, e.pub);
	};
	events.onerror = () => errors.push(events.readyState);
}
</script>`

// TestEventSourceOfManyChannels: a browser with 128 channels resumes in each after a disconnection. If its channels have too many epochs for an
// event id, it learns that it may have missed something (tigerlily/redisse#4, whatwg/html#8297).
func TestEventSourceOfManyChannels(t *testing.T) {
	const channels = 128
	for _, tt := range []struct {
		name       string
		namespaces int
		recovers   bool
	}{{"one epoch", 1, true}, {"an epoch each", channels, false}} {
		t.Run(tt.name, func(t *testing.T) {
			pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				_, _ = fmt.Fprint(w, channelsPage)
			}))
			t.Cleanup(pages.Close)
			settings := fmt.Sprintf("origins: [%q]\nnamespaces:\n", pages.URL)
			for i := range tt.namespaces {
				settings += fmt.Sprintf("  - {name: n%d, history: {size: 100, age: 1h}}\n", i)
			}
			var names []string
			for i := range channels {
				names = append(names, fmt.Sprintf("n%d:c%d", i%tt.namespaces, i))
			}
			asked, err := json.Marshal(names)
			if err != nil {
				t.Fatal(err)
			}
			args := []string{"--data", t.TempDir()}
			p := startNodeWith(t, settings, args...)
			b := openTab(t, true)
			b.do(chromedp.Navigate(pages.URL))
			eval[bool](b, fmt.Sprintf("listen(%q, %s), true", "http://"+p.public, asked))
			b.awaitEvents("hellos.length === 1")
			for i, name := range names[:10] {
				p.api("publish", map[string]any{"channel": name, "data": i})
			}
			b.awaitEvents("Object.keys(got).length === 10")

			if code := p.terminate(); code != 0 {
				t.Errorf("the node ended with code %d", code)
			}
			b.awaitEvents("events.readyState === EventSource.CONNECTING")
			p = startNodeWith(t, settings, append(args, "--listen", p.public)...)
			for i, name := range names[5:15] {
				p.api("publish", map[string]any{"channel": name, "data": 100 + i})
			}
			b.awaitEvents("hellos.length === 2")
			told := fmt.Sprintf("hellos[1].every(sub => sub.was_recovering && !!sub.recovered === %t)", tt.recovers)
			if !eval[bool](b, told) {
				t.Errorf("it is told %s", eval[string](b, "JSON.stringify(hellos[1])"))
			}
			if tt.recovers {
				for i, name := range names[5:15] {
					b.awaitEvents(fmt.Sprintf("got[%q]?.has(%d)", name, 100+i))
				}
			}
		})
	}
}

// awaitEvents waits until an expression about eventPage is true.
func (b *browserTab) awaitEvents(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserPatience)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(browserPatience))); err != nil {
		b.t.Fatalf("%s does not come true: %v; got, errors, state: %s", expression, err, eval[string](b, "JSON.stringify([got, errors, events?.readyState])"))
	}
}
