package main_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/sluice-push/sluice/internal/testwait"
)

// browserPatience is the time limit of each step in the browser.
const browserPatience = time.Minute

// browserTab is an open page of a headless browser.
type browserTab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	messages []string
}

// openTab starts a browser with an empty page. Messages of the page on the console fail the test. If serverGoesAway is set, the browser's own
// messages about an unreachable server do not.
func openTab(t *testing.T, serverGoesAway bool) *browserTab {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Fatal("no Chromium is installed: run make deps")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(allocator)
	t.Cleanup(stopAllocator)
	t.Cleanup(stop)
	b := &browserTab{t: t, ctx: ctx}
	messages := chromedp.Console(ctx)
	if err := chromedp.Do(ctx); err != nil { // starts the browser, which lives as long as this context
		t.Fatalf("start %s: %v", path, err)
	}
	var listening sync.WaitGroup
	listening.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if serverGoesAway && (m.Source == "network" || strings.HasPrefix(m.Text, "WebSocket connection to ")) {
				continue
			}
			b.mu.Lock()
			b.messages = append(b.messages, m.String())
			b.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("the browser did not end: %v", err)
		}
		testwait.Return(t, listening.Wait)
		for _, m := range b.messages {
			t.Errorf("the console says: %s", m)
		}
	})
	return b
}

// do runs steps.
func (b *browserTab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserPatience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns the value of an expression.
func eval[T any](b *browserTab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserPatience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// await waits until an expression is true.
func (b *browserTab) await(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserPatience)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(browserPatience))); err != nil {
		state := eval[string](b, `JSON.stringify([sluice.state(), sluice.symbol(), sluice.rows(), sluice.points().length, sluice.resumptions(), sluice.meters()])`)
		b.t.Fatalf("%s does not come true: %v; the page is at %s", expression, err, state)
	}
}

// look sets the size of the screen and the colour scheme.
func (b *browserTab) look(width, height int64, scheme string) {
	b.t.Helper()
	var size []chromedp.EmulateViewportOption
	if width < 600 {
		size = append(size, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulatePortrait, chromedp.EmulateScale(2))
	}
	b.do(chromedp.EmulateViewport(width, height, size...))
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media); err != nil {
		b.t.Fatal(err)
	}
}

// picture saves a screenshot for people to look at, if the test runs with -artifacts.
func (b *browserTab) picture(name string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserPatience)
	defer cancel()
	shown, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.t.ArtifactDir(), name+".png"), shown, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// point is a tick in the chart, nil where the line has a gap.
type point struct {
	Time   int64
	Price  float64
	Offset uint64
}

func (b *browserTab) points() []*point {
	b.t.Helper()
	return eval[[]*point](b, "sluice.points()")
}

// resumption is the state of the chart after a disconnection.
type resumption struct {
	Recovered bool
	Missed    int
}

// offsetsOf returns the offsets of a symbol's ticks on the server, the oldest first.
func offsetsOf(p *process, symbol string) []uint64 {
	p.t.Helper()
	result := p.api("history", map[string]any{"channel": "ticks:" + symbol, "limit": -1})
	var offsets []uint64
	for _, entry := range result["publications"].([]any) {
		offsets = append(offsets, uint64(entry.(map[string]any)["offset"].(float64)))
	}
	return offsets
}

// compare checks that points has every offset of the server between its first and its last point.
func compare(t *testing.T, points []*point, server []uint64) {
	t.Helper()
	shown := map[uint64]bool{}
	for _, p := range points {
		if p == nil {
			t.Error("the line has a gap")
			continue
		}
		if shown[p.Offset] {
			t.Errorf("the tick at %d is there twice", p.Offset)
		}
		shown[p.Offset] = true
	}
	if len(points) == 0 || len(server) == 0 {
		t.Fatalf("%d points are shown, the server has %d", len(points), len(server))
	}
	first, last := points[0].Offset, points[len(points)-1].Offset
	for _, offset := range server {
		if offset >= first && offset <= last && !shown[offset] {
			t.Errorf("the tick at %d is missing; the line goes from %d to %d", offset, first, last)
		}
	}
}

// TestPageAfterCut cuts the connection until the server has published more. After the page has reconnected, its chart has every tick.
func TestPageAfterCut(t *testing.T) {
	p := startNode(t, "--demo")
	proxy := newProxy(t, p.public)
	b := openTab(t, true)
	b.look(1280, 900, "dark")
	b.do(chromedp.Navigate("http://" + proxy.listener.Addr().String() + "/"))
	b.await("sluice.state() === 'live' && sluice.rows() === 50 && sluice.points().length > 3")
	symbol := eval[string](b, "sluice.symbol()")
	proxy.cut()
	b.await("sluice.state() === 'reconnecting'")
	before := b.points()
	if code, _, stderr := runBinary(t, "sub", "ticks:"+symbol, "-n", "5", "-q", "--url=http://"+p.public); code != 0 {
		t.Fatalf("waiting for more ticks: %s", stderr)
	}
	proxy.restore()
	b.await("sluice.state() === 'live' && sluice.resumptions().length > 0")
	if got := eval[[]resumption](b, "sluice.resumptions()"); len(got) != 1 || !got[0].Recovered || got[0].Missed < 5 {
		t.Errorf("after the cut the page says %+v", got)
	}
	b.await(fmt.Sprintf("sluice.points().length > %d", len(before)+5))
	b.await("sluice.gaps() === 0") // the sparklines are complete, too
	b.picture("back")
	compare(t, b.points(), offsetsOf(p, symbol))
}

// TestPageAfterRestart kills the server and starts another one in its place. The page reconnects by itself. With a broker in memory, the old
// ticks stay on the screen, and a gap marks the missing ones. With a durable broker the missing ticks are filled in.
func TestPageAfterRestart(t *testing.T) {
	for kind, durable := range map[string]bool{"memory": false, "nats": true} {
		t.Run(kind, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "sluice.yaml")
			if err := os.WriteFile(file, []byte("broker: {kind: "+kind+"}"), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"--demo", "--config", file, "--data", t.TempDir()}
			p := startNode(t, args...)
			b := openTab(t, true)
			b.look(390, 844, "light")
			b.do(chromedp.Navigate("http://" + p.public + "/"))
			const change = "(window.first ??= document.querySelector('#rows').innerText) !== document.querySelector('#rows').innerText"
			b.await("sluice.state() === 'live' && sluice.points().length > 3 && " + change)
			p.kill()
			b.await("sluice.state() === 'reconnecting' && document.querySelector('#state-text').innerText.startsWith('Reconnecting')")
			before := b.points()
			b.picture("gone")
			p = startNode(t, append(args, "--listen", p.public)...)
			b.await("sluice.state() === 'live' && sluice.resumptions().length > 0 && (window.first = null, true)")
			b.await(change)
			b.await(fmt.Sprintf("sluice.points().length > %d", len(before)+3))
			b.picture("back")
			if got := eval[[]resumption](b, "sluice.resumptions()"); len(got) != 1 || got[0].Recovered != durable {
				t.Errorf("after the restart the page says %+v", got)
			}
			after := b.points()
			last := len(before) - 1
			if *after[last] != *before[last] {
				t.Errorf("the tick after which the server was gone is %+v, was %+v", after[last], before[last])
			}
			if !durable {
				if after[last+1] != nil {
					t.Errorf("the line has no gap after %+v", before[last])
				}
				after = after[last+2:]
			}
			compare(t, after, offsetsOf(p, eval[string](b, "sluice.symbol()")))
		})
	}
}

// TestPageLooks uses the page on screens of several sizes, in both colour schemes. Nothing is cut off, and rows can be chosen by mouse and
// keyboard. With go test -artifacts the screenshots are kept for people to look at.
func TestPageLooks(t *testing.T) {
	p := startNode(t, "--demo")
	b := openTab(t, false)
	b.look(1280, 900, "light")
	b.do(chromedp.Navigate("http://" + p.public + "/"))
	b.await("sluice.state() === 'live' && sluice.rows() === 50 && sluice.meters().rate > 20 && sluice.meters().latency > 0")
	b.do(chromedp.Click(chromedp.CSS("#rows tr:nth-child(3)")))
	b.await("sluice.symbol() === 'BELKO' && document.querySelector('#symbol').innerText === 'BELKO' && location.hash === '#BELKO'")
	b.do(chromedp.Focus(chromedp.CSS("#rows tr:nth-child(3) button")), chromedp.KeyEvent(kb.ArrowUp))
	b.await("sluice.symbol() === 'ARDIN' && document.activeElement.innerText === 'ARDIN'")
	b.do(chromedp.Click(chromedp.CSS("#rows tr:nth-child(1)")), chromedp.Click(chromedp.CSS("#spans button:first-child")))
	b.await("sluice.points().length > 20")
	for _, screen := range []struct{ width, height int64 }{{1280, 900}, {768, 1024}, {390, 844}, {360, 640}} {
		for _, scheme := range []string{"light", "dark"} {
			name := fmt.Sprintf("%dx%d-%s", screen.width, screen.height, scheme)
			b.look(screen.width, screen.height, scheme)
			b.await(fmt.Sprintf("innerWidth === %d", screen.width))
			if got := eval[int64](b, "document.documentElement.scrollWidth"); got > screen.width {
				t.Errorf("%s: the page is %d wide", name, got)
			}
			b.await("document.querySelector('#plot canvas')?.clientWidth <= document.querySelector('#plot').clientWidth")
			b.picture(name)
		}
	}
}

// proxy forwards connections to an address until it is cut.
type proxy struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	open  bool
	conns map[net.Conn]bool
	work  sync.WaitGroup
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &proxy{listener: l, to: to, open: true, conns: map[net.Conn]bool{}}
	w.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.work.Go(func() { w.carry(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.cut()
		testwait.Return(t, w.work.Wait)
	})
	return w
}

// carry copies in both directions until one side ends.
func (w *proxy) carry(client net.Conn) {
	server, err := net.Dial("tcp", w.to)
	if err != nil {
		_ = client.Close()
		return
	}
	w.mu.Lock()
	if w.open {
		w.conns[client], w.conns[server] = true, true
	} else {
		_, _ = client.Close(), server.Close()
	}
	w.mu.Unlock()
	var copies sync.WaitGroup
	for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
		copies.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_, _ = client.Close(), server.Close()
		})
	}
	copies.Wait()
	w.mu.Lock()
	delete(w.conns, client)
	delete(w.conns, server)
	w.mu.Unlock()
}

// cut ends all connections. Until restore, new connections end at once.
func (w *proxy) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = false
	for c := range w.conns {
		_ = c.Close()
	}
}

func (w *proxy) restore() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = true
}
