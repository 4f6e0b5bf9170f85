package main_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	dto "github.com/prometheus/client_model/go"
	googlegrpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
)

// clientsFolder has the examples of clients without an SDK that are not in Go.
var clientsFolder = filepath.Join("..", "..", "examples", "clients")

// openNode starts a node that lets anybody subscribe to channels of the namespace news, with more lines of configuration.
func openNode(t *testing.T, more string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	must(t, os.WriteFile(file, []byte("namespaces: [{name: news}]\nping: {interval: 1s, timeout: 500ms}\n"+more), 0o600))
	return startNode(t, "--insecure", "--config", file)
}

// publishNews publishes to the channel news:today.
func (p *process) publishNews(data any) {
	p.t.Helper()
	p.api("publish", map[string]any{"channel": "news:today", "data": data})
}

// awaitPongs waits until clients have answered so many pings.
func (p *process) awaitPongs(n float64) {
	p.t.Helper()
	p.eventuallyShown("pongs", func(s map[string]*dto.MetricFamily) bool {
		return metric(s["sluice_commands_total"], "kind", "none") >= n
	})
}

// TestCurlExample: the script publishes, and gets what it published over each transport of HTTP.
func TestCurlExample(t *testing.T) {
	t.Parallel()
	p := openNode(t, "")
	run := exec.CommandContext(testwait.Context(t), filepath.Join(clientsFolder, "curl", "client.sh"), "http://"+p.public, "news:today")
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"uni_http_stream", "uni_sse", "http_stream", "sse"} {
		if !strings.Contains(string(out), "\n"+name+" ") {
			t.Errorf("%s is missing in\n%s", name, out)
		}
	}
	run = exec.CommandContext(testwait.Context(t), filepath.Join(clientsFolder, "curl", "client.sh"), "http://"+p.public, "absent:today")
	if out, err := run.CombinedOutput(); err == nil {
		t.Errorf("a channel that does not exist is no error\n%s", out)
	}
}

// TestPythonExample: the client in Python prints what is published, answers pings, and ends with the reason of the server.
func TestPythonExample(t *testing.T) {
	t.Parallel()
	folder, err := filepath.Abs(filepath.Join(clientsFolder, "grpc-python"))
	must(t, err)
	python := filepath.Join(folder, ".venv", "bin", "python")
	if _, err := os.Stat(filepath.Join(folder, ".venv", "requirements.txt")); err != nil {
		t.Fatalf("grpcio is not installed: run make deps (%v)", err)
	}
	p := openNode(t, "")
	run := exec.CommandContext(testwait.Context(t), python, "-B", filepath.Join(folder, "main.py"), p.public, "news:today")
	var stderr lockedBuffer
	run.Stderr = &stderr
	out, err := run.StdoutPipe()
	must(t, err)
	must(t, run.Start())
	t.Cleanup(func() { _ = run.Process.Kill() })
	lines := bufio.NewScanner(out)
	for i, want := range []string{"subscribed to news:today", `1 {"title":"hello"}`, `2 {"title":"again"}`} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("line %d is %q, want %q; %v %s", i, lines.Text(), want, lines.Err(), stderr.String())
		}
		switch i {
		case 0:
			p.publishNews(map[string]string{"title": "hello"})
		case 1:
			p.awaitPongs(2)
			p.publishNews(map[string]string{"title": "again"})
		}
	}
	p.terminate()
	if lines.Scan() {
		t.Errorf("another line: %q", lines.Text())
	}
	if err := run.Wait(); err == nil || !strings.Contains(stderr.String(), "UNAVAILABLE: shutdown") {
		t.Errorf("ended with %v, %s", err, stderr.String())
	}
}

// TestWebExample: the page shows what is published, answers pings, and says why the server ended its session.
func TestWebExample(t *testing.T) {
	t.Parallel()
	pages := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(clientsFolder, "grpc-web"))))
	t.Cleanup(pages.Close)
	p := openNode(t, fmt.Sprintf("origins: [%q]\n", pages.URL))
	b := openTab(t, true)
	b.do(chromedp.Navigate(pages.URL + "/?channel=news:today&node=http://" + p.public))
	b.await(`document.querySelector("#state").textContent === "subscribed to news:today"`)
	p.publishNews("grüß dich")
	p.awaitPongs(2)
	p.publishNews("again")
	b.await(`document.querySelector("#publications").innerText.includes("again")`)
	if got := eval[string](b, `[...document.querySelectorAll("li")].map(e => e.textContent).join()`); got != `"grüß dich","again"` {
		t.Errorf("the page shows %s", got)
	}
	p.terminate()
	b.await(`document.querySelector("#state").textContent.startsWith("disconnected:")`)
	if got := eval[string](b, `document.querySelector("#state").textContent`); !strings.Contains(got, "shutdown") {
		t.Errorf("the page says %s", got)
	}
}

// TestCompressionOfNode: a node compresses if its configuration says so, and curl asks for it.
func TestCompressionOfNode(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]bool{"compression: true\n": true, "": false} {
		p := openNode(t, setting)
		p.publishNews(strings.Repeat("x", 10_000))
		head := filepath.Join(t.TempDir(), "head")
		run := exec.CommandContext(testwait.Context(t), "curl", "-sSN", "--compressed", "-D", head, "-d", `{"subs":{"news:today":{"recover":true}}}`,
			"http://"+p.public+"/connection/uni_http_stream")
		out, err := run.StdoutPipe()
		must(t, err)
		must(t, run.Start())
		lines := bufio.NewScanner(out)
		if !lines.Scan() || !strings.Contains(lines.Text(), "connect") {
			t.Errorf("curl prints %q, %v", lines.Text(), lines.Err())
		}
		text, err := os.ReadFile(head)
		must(t, err)
		if got := strings.Contains(strings.ToLower(string(text)), "content-encoding: gzip"); got != want {
			t.Errorf("the header is %s", text)
		}
		p.terminate()
		if err := run.Wait(); err != nil { // the end of the body as well
			t.Errorf("curl: %v", err)
		}
		cc, err := googlegrpc.NewClient(openNode(t, setting).public, googlegrpc.WithTransportCredentials(insecure.NewCredentials()))
		must(t, err)
		_, err = clientv1.NewClientClient(cc).Send(testwait.Context(t), &clientv1.SendCommandsRequest{Session: "x"}, googlegrpc.UseCompressor(gzip.Name))
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("a compressed call of native gRPC: %v", err)
		}
		must(t, cc.Close())
	}
}
