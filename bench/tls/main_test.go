package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/bench/internal/loadtest"
)

func TestMain(m *testing.M) { loadtest.Main(m, main) }

// TestRun measures everything for a moment, with few clients.
func TestRun(t *testing.T) {
	var out strings.Builder
	args := []string{"-clients", "400", "-rest", "50ms", "-rounds", "2", "-seconds", "0.2", "-workers", "4"}
	if err := run(context.Background(), args, nil, &out); err != nil {
		t.Fatal(err)
	}
	row := func(name string) (figures []float64) {
		for line := range strings.Lines(out.String()) {
			rest, ok := strings.CutPrefix(line, "| "+name+" | ")
			for _, text := range regexp.MustCompile(`[\d.]+`).FindAllString(rest, -1) {
				if v, err := strconv.ParseFloat(text, 64); ok && err == nil {
					figures = append(figures, v)
				}
			}
		}
		return figures
	}
	for _, name := range []string{"sluice, TLS", "sluice", "net/http, crypto/tls, gws", "net/http, gws", "sluice | full", "net/http | full", "sluice | resumed", "net/http | resumed"} {
		if len(row(name)) < 3 {
			t.Errorf("no row of %s in\n%s", name, out.String())
		}
	}
	if secure, plain := row("net/http, crypto/tls, gws"), row("net/http, gws"); len(secure) == 3 && len(plain) == 3 && secure[1] < plain[1]+5 {
		t.Errorf("a client over TLS takes %v KB, without TLS %v KB", secure[1], plain[1])
	}
	for _, args := range [][]string{{"-parts", "x"}, {"-clients", "100"}, {"-rounds", "0"}, {"-workers", "0"}, {"-seconds", "0"}} {
		if err := run(context.Background(), args, nil, &out); err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(args[0], "-parts")) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestServerEnds: a server that ends while it is measured is an error that comes soon.
func TestServerEnds(t *testing.T) {
	c := &costs{clients: 200, workers: 2, length: time.Hour}
	var err error
	if c.certificate, err = newCertificate(); err != nil {
		t.Fatal(err)
	}
	defer c.certificate.remove()
	for name, measure := range map[string]func(*peer) error{
		"memory": func(p *peer) error {
			_, err := c.footprint(context.Background(), p, true)
			return err
		},
		"handshakes": func(p *peer) error {
			_, err := c.shake(context.Background(), p, true)
			return err
		},
	} {
		p, err := c.startOther(context.Background(), gwsServer, true)
		if err != nil {
			t.Fatal(err)
		}
		stopped := make(chan error, 1)
		p.why = func(err error) error { return errors.Join(errors.New("it said nothing"), err) }
		whole := p.address
		p.address = proxyOnce(t, whole, func() { stopped <- p.stop() })
		if err := measure(p); err == nil || name == "memory" && !strings.Contains(err.Error(), "it said nothing") {
			t.Errorf("%s: %v", name, err)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}
}

// proxyOnce listens, passes three connections on to an address, and then calls end and closes all that come. It returns where it listens.
func proxyOnce(t *testing.T, address string, end func()) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
	})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			if n == 3 {
				end()
			}
			if n >= 3 {
				_ = conn.Close()
				continue
			}
			pass(conn, address)
		}
	}()
	return ln.Addr().String()
}

// pass copies both ways in the background, until both sides have ended.
func pass(conn net.Conn, address string) {
	to, err := net.Dial("tcp", address)
	if err != nil {
		_ = conn.Close()
		return
	}
	for _, pair := range [][2]net.Conn{{conn, to}, {to, conn}} {
		go func() {
			buf := make([]byte, 4<<10)
			for {
				n, err := pair[0].Read(buf)
				if _, failed := pair[1].Write(buf[:n]); err != nil || failed != nil {
					_ = pair[0].Close()
					_ = pair[1].Close()
					return
				}
			}
		}()
	}
}

// TestResumed: a server that does not resume sessions is an error, if resumed handshakes are measured.
func TestResumed(t *testing.T) {
	c := &costs{workers: 1, length: time.Hour}
	var err error
	if c.certificate, err = newCertificate(); err != nil {
		t.Fatal(err)
	}
	defer c.certificate.remove()
	p := &peer{address: forgetful(t, c.certificate), pid: os.Getpid()}
	if _, err := c.shake(context.Background(), p, true); err == nil || !strings.Contains(err.Error(), "resumed is false") {
		t.Error(err)
	}
}

// TestFigure finds a number of a file of the kernel.
func TestFigure(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("UDP: a 1\nTCP: inuse 7 mem 12\nTCP6:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := figure(file, "TCP:", 4); n != 12 || err != nil {
		t.Errorf("%d, %v, want 12", n, err)
	}
	for _, name := range []string{"TCP6:", "absent"} {
		if _, err := figure(file, name, 1); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
