package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
)

// reverseProxy is a proxy of docs/proxies.md, which tests run on a Unix socket.
type reverseProxy struct {
	language string                               // of its block in the document
	replace  map[string]string                    // in the block; SOCKET and NODE are the addresses
	frame    string                               // what is around the block, which is %s
	command  func(folder, config string) []string // runs the proxy in the foreground
}

var reverseProxies = map[string]reverseProxy{
	"nginx": {
		language: "nginx",
		replace:  map[string]string{"listen 8080;": "listen unix:SOCKET;", "listen 8081 http2;": "listen unix:SOCKET2 http2;", "server 127.0.0.1:8000;": "server NODE;"},
		frame: "daemon off; error_log stderr; pid FOLDER/pid; events {}\nhttp {\naccess_log off; client_body_temp_path FOLDER/a; proxy_temp_path FOLDER/b;\n" +
			"fastcgi_temp_path FOLDER/c; uwsgi_temp_path FOLDER/d; scgi_temp_path FOLDER/e;\n%s}\n",
		command: func(folder, config string) []string { return []string{"nginx", "-p", folder, "-c", config} },
	},
	"haproxy": {
		language: "haproxy",
		replace:  map[string]string{"bind :8080": "bind unix@SOCKET", "server node1 127.0.0.1:8000 check": "server node1 NODE"},
		frame:    "%s",
		command:  func(_, config string) []string { return []string{"haproxy", "-db", "-f", config} },
	},
	"caddy": {
		language: "caddy",
		replace: map[string]string{
			"http://:8080 {": "http:// {\nbind unix/SOCKET", "reverse_proxy 127.0.0.1:8000": "reverse_proxy NODE",
			"request_buffers 64KiB": "buffer_requests", // its name before Caddy 2.7, which distributions still have
		},
		frame: "{\nadmin off\nauto_https off\n}\n%s",
		command: func(_, config string) []string {
			return []string{"caddy", "run", "--adapter", "caddyfile", "--config", config}
		},
	},
}

// TestProxies: clients of all transports work through the proxies of docs/proxies.md, with what the document says of them, and nothing is held back.
func TestProxies(t *testing.T) {
	t.Parallel()
	node := startNode(t, "--insecure")
	for name, proxy := range reverseProxies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket := proxy.start(t, node.public)
			dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			}
			transport := &http.Transport{DialContext: dial}
			t.Cleanup(transport.CloseIdleConnections)
			c := &proxied{t: t, node: node, http: &http.Client{Transport: transport}, channel: "through-" + name}
			c.webSocket()
			for _, path := range []string{"uni_sse", "uni_http_stream"} {
				c.listens(path)
			}
			c.streams()
			if name == "nginx" {
				c.grpc(socket + "2")
			}
		})
	}
}

// start runs the proxy in front of a node, until the end of the test, and returns its socket.
func (p *reverseProxy) start(t *testing.T, node string) (socket string) {
	folder, err := os.MkdirTemp("", "sluice") //nolint:usetesting // a short name: that of a socket has at most 107 bytes
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	must(t, os.Chmod(folder, 0o755)) //nolint:gosec // a worker of the proxy may be another user
	socket = filepath.Join(folder, "s")
	text := blockOf(t, "proxies.md", p.language)
	for from, to := range p.replace {
		if !strings.Contains(text, from) {
			t.Fatalf("the block has no %q", from)
		}
		text = strings.ReplaceAll(text, from, to)
	}
	text = strings.NewReplacer("SOCKET", socket, "NODE", node, "FOLDER", folder).Replace(fmt.Sprintf(p.frame, text))
	config := filepath.Join(folder, "config")
	must(t, os.WriteFile(config, []byte(text), 0o600))
	args := p.command(folder, config)
	if _, err := exec.LookPath(args[0]); err != nil {
		args[0] = filepath.Join("/usr/sbin", args[0]) // where Debian has it, and users do not look
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // nginx then ends its workers
	cmd.WaitDelay = time.Second                                              // and Caddy would wait for its clients
	cmd.Env = append(os.Environ(), "HOME="+folder)
	said := &lockedBuffer{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: run make deps", err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		cancel()
		testwait.Receive(t, ended)
		if t.Failed() {
			t.Logf("%s said:\n%s", args[0], said)
		}
	})
	testwait.True(t, args[0]+" listens", func() bool {
		select {
		case <-ended:
			t.Fatalf("%s has ended", args[0])
		default:
		}
		conn, err := net.Dial("unix", socket)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return socket
}

// blockOf returns the block of a document that has a language.
func blockOf(t *testing.T, document, language string) string {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", document))
	must(t, err)
	_, rest, found := strings.Cut(string(text), "```"+language+" ")
	_, rest, _ = strings.Cut(rest, "\n")
	block, _, ends := strings.Cut(rest, "```")
	if !found || !ends {
		t.Fatalf("%s has no block of %s", document, language)
	}
	return block
}

// proxied is a client behind a proxy.
type proxied struct {
	t       *testing.T
	node    *process
	http    *http.Client
	channel string
	count   int
}

// context bounds one step.
func (c *proxied) context() context.Context {
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	c.t.Cleanup(cancel)
	return ctx
}

// publish publishes something new, directly, and returns it.
func (c *proxied) publish() string {
	c.count++
	data := fmt.Sprintf(`"message %d"`, c.count)
	c.node.api("publish", map[string]any{"channel": c.channel, "data": json.RawMessage(data)})
	return data
}

func (c *proxied) webSocket() {
	ctx := c.context()
	conn, _, err := websocket.Dial(ctx, "ws://localhost/connection/websocket", &websocket.DialOptions{HTTPClient: c.http})
	must(c.t, err)
	defer func() { _ = conn.CloseNow() }()
	must(c.t, conn.Write(ctx, websocket.MessageText, []byte(`{"id":1,"connect":{}}`+"\n"+`{"id":2,"subscribe":{"channel":"`+c.channel+`"}}`)))
	next := func() string {
		_, frame, err := conn.Read(ctx)
		must(c.t, err)
		return string(frame)
	}
	c.until(next, `"subscribe"`)
	c.until(next, c.publish())
}

// listens follows the channel by a transport without commands.
func (c *proxied) listens(path string) {
	ask := `{"subs":{"` + c.channel + `":{}}}`
	next := c.open(path, ask)
	c.until(next, `"connect"`)
	c.until(next, c.publish())
	c.until(next, c.publish())
}

// streams follows the channel by HTTP streams and server-sent events, with commands beside them.
func (c *proxied) streams() {
	for _, path := range []string{"http_stream", "sse"} {
		next := c.open(path, `{"id":1,"connect":{}}`)
		connected := c.until(next, `"connect"`)
		command := `{\"id\":2,\"subscribe\":{\"channel\":\"` + c.channel + `\"}}`
		body := fmt.Sprintf(`{"session":%q,"node":%q,"data":"%s"}`, member(connected, "session"), member(connected, "node"), command)
		r, err := http.NewRequestWithContext(c.context(), http.MethodPost, "http://localhost/emulation", strings.NewReader(body))
		must(c.t, err)
		response, err := c.http.Do(r)
		must(c.t, err)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusNoContent {
			c.t.Fatalf("commands are answered %s", response.Status)
		}
		c.until(next, `"subscribe"`)
		c.until(next, c.publish())
	}
}

// grpc follows the channel by native gRPC.
func (c *proxied) grpc(socket string) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(c.t, err)
	defer func() { _ = conn.Close() }()
	session, err := clientv1.NewClientClient(conn).Connect(c.context())
	must(c.t, err)
	must(c.t, session.Send(&clientv1.Command{Id: 1, Connect: &clientv1.ConnectRequest{}}))
	must(c.t, session.Send(&clientv1.Command{Id: 2, Subscribe: &clientv1.SubscribeRequest{Channel: c.channel}}))
	next := func() string {
		reply, err := session.Recv()
		must(c.t, err)
		return reply.String()
	}
	c.until(next, "subscribe:")
	data := strings.Trim(c.publish(), `"`)
	c.until(next, data)
}

// member returns a string in a text of JSON.
func member(text, name string) string {
	_, rest, _ := strings.Cut(text, `"`+name+`":"`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// until reads until there is a text, and returns what has it.
func (c *proxied) until(next func() string, text string) string {
	for {
		if got := next(); strings.Contains(got, text) {
			return got
		}
	}
}

// open begins a stream, and returns what reads its lines.
func (c *proxied) open(path, ask string) (next func() string) {
	method, address := http.MethodPost, "http://localhost/connection/"+path
	if strings.HasSuffix(path, "sse") {
		method, address, ask = http.MethodGet, address+"?cf_connect="+url.QueryEscape(ask), ""
	}
	r, err := http.NewRequestWithContext(c.context(), method, address, strings.NewReader(ask))
	must(c.t, err)
	response, err := c.http.Do(r)
	must(c.t, err)
	c.t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		c.t.Fatalf("%s is answered %s", path, response.Status)
	}
	lines := bufio.NewReader(response.Body)
	return func() string {
		line, err := lines.ReadString('\n')
		must(c.t, err)
		return line
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
