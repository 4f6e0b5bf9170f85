package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// sdkPage is a page of another origin with the official client, whose walk goes through what an application does over one transport.
const sdkPage = `<!doctype html><title>SDK</title><script type="module">
import { Centrifuge as JSONClient } from "/build/index.mjs";
import { Centrifuge as ProtobufClient } from "/build/protobuf/index.mjs";

window.done = {};
window.walk = async (node, transport, form) => {
	const name = transport + " " + form;
	const step = text => { done[name] = text; };
	const encode = value => form === "json" ? value : new TextEncoder().encode(JSON.stringify(value));
	const decode = data => form === "json" ? data : JSON.parse(new TextDecoder().decode(data));
	try {
		const endpoint = (transport === "websocket" ? node.replace("http", "ws") : node) + "/connection/" + transport;
		const client = new (form === "json" ? JSONClient : ProtobufClient)([{transport, endpoint}],
			{emulationEndpoint: node + "/emulation", timeout: 30000, minReconnectDelay: 20, maxReconnectDelay: 100});
		const channel = "walk:" + transport + form;
		const got = [];
		const sub = client.newSubscription(channel);
		sub.on("publication", ctx => got.push(decode(ctx.data)));
		step("connecting");
		client.connect();
		await client.ready();
		step("subscribing");
		sub.subscribe();
		await sub.ready();
		for (let i = 0; i < 20; i++) await sub.publish(encode({i}));
		step("published");
		while (got.length < 20) await new Promise(resolve => sub.once("publication", resolve));
		const {publications} = await sub.history({limit: 2, reverse: true});
		const present = await sub.presenceStats();
		step("coming back");
		client.disconnect();
		client.connect();
		await sub.ready();
		await sub.publish(encode("end"));
		while (got.at(-1) !== "end") await new Promise(resolve => sub.once("publication", resolve));
		client.disconnect();
		step(JSON.stringify([got.length, got[0].i, got[19].i, publications.map(p => decode(p.data).i), present.numClients]));
	} catch (e) {
		step(done[name] + ": " + (e.message ?? JSON.stringify(e)));
	}
};
window.loaded = true;
</script>`

// TestSDKInBrowser: the official client in Chromium works from a page of another origin, over each transport and form.
func TestSDKInBrowser(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle("/build/", http.FileServer(http.Dir(filepath.Join("..", "..", "push", "gateway", "testdata", "sdk", "node_modules", "centrifuge"))))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, sdkPage)
	})
	pages := httptest.NewServer(mux)
	t.Cleanup(pages.Close)
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	settings := fmt.Sprintf("origins: [%q]\nnamespaces: [{name: walk, history: {size: 100, age: 1h}}]\n", pages.URL)
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startNode(t, "--insecure", "--config", file)
	b := openTab(t, false)
	b.do(chromedp.Navigate(pages.URL))
	b.await("window.loaded === true")
	for _, way := range []struct{ transport, form string }{
		{"websocket", "json"}, {"websocket", "protobuf"}, {"http_stream", "json"}, {"http_stream", "protobuf"}, {"sse", "json"},
	} {
		name := way.transport + " " + way.form
		eval[bool](b, fmt.Sprintf("walk(%q, %q, %q), true", "http://"+p.public, way.transport, way.form))
		b.await(fmt.Sprintf("/^\\[|:/.test(done[%q])", name))
		if got := eval[string](b, fmt.Sprintf("done[%q]", name)); got != "[21,0,19,[19,18],1]" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
