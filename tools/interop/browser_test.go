//go:build interop

package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"
)

// browser is the peer Chromium: a page whose script carries out tasks.
type browser struct{ page context.Context }

// startBrowser opens a page of another server, so that the page's origin differs from that of our server.
func startBrowser(t *testing.T) client {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Fatal("no Chromium is installed: run make deps")
	}
	files := http.FileServer(http.Dir("testdata/node"))
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			files.ServeHTTP(w, r)
			return
		}
		fmt.Fprint(w, `<!doctype html><link rel="icon" href="data:,">
			<script type="module">import { play } from './standard.mjs'; window.play = play;</script>`)
	}))
	t.Cleanup(pages.Close)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stopAllocator)
	ctx, stop := chromedp.NewContext(allocator)
	t.Cleanup(stop)
	if err := chromedp.Do(ctx); err != nil { // starts the browser, which lives as long as this context
		t.Fatalf("start %s: %v", path, err)
	}
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("the browser did not end: %v", err)
		}
	})
	opening, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := chromedp.Do(opening, chromedp.Navigate(pages.URL)); err != nil {
		t.Fatal(err)
	}
	loaded := chromedp.Poll[bool]("window.play !== undefined", chromedp.WithPollingTimeout(patience))
	if _, err := chromedp.Run(opening, loaded); err != nil {
		t.Fatal(err)
	}
	return &browser{ctx}
}

// connect implements client.
func (b *browser) connect(t *testing.T, o task) report {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.page, patience)
	defer cancel()
	said, err := chromedp.Run(ctx, chromedp.Evaluate[report](fmt.Sprintf("play(WebSocket, %s)", text), chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	return said
}
