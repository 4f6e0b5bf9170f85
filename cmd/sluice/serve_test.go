package main_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// runBinary runs the built command and returns its exit code and output.
func runBinary(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("sluice %s did not end:\n%s%s", strings.Join(args, " "), &out, &errs)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// TestServeRefuses: a node that cannot run with its settings says why, and what to do.
func TestServeRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("listen: :8000\nlimits: {sessions: many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	insecureTLS := filepath.Join(t.TempDir(), "tls.yaml")
	if err := os.WriteFile(insecureTLS, []byte("tls: {cert: absent.pem, key: absent.pem}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hub := filepath.Join(t.TempDir(), "hub.yaml")
	if err := os.WriteFile(hub, []byte("role: hub\nlisten: \"\"\ncluster: {name: c, link: {listen: 127.0.0.1:0}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"no authentication":   {[]string{"serve"}, []string{"auth.anonymous", "--insecure", "--demo"}},
		"demo without a page": {[]string{"serve", "--demo", "--config", hub}, []string{"the demo has a page", "--listen"}},
		"public port in use": {
			[]string{"serve", "--insecure", "--listen", taken.Addr().String(), "--internal", "127.0.0.1:0"},
			[]string{"cannot listen on " + taken.Addr().String(), `"listen"`, "address already in use"},
		},
		"internal port in use": {
			[]string{"serve", "--insecure", "--listen", "127.0.0.1:0", "--internal", taken.Addr().String()},
			[]string{"cannot listen on " + taken.Addr().String(), `"internal"`, "address already in use"},
		},
		"broken YAML": {[]string{"serve", "--insecure", "--config", broken}, []string{"broken.yaml:2"}},
		"no certificate": {
			[]string{"serve", "--insecure", "--listen", "127.0.0.1:0", "--internal", "127.0.0.1:0", "--config", insecureTLS}, []string{"cannot load the certificate", `"tls"`, "no such file"},
		},
		"no file": {[]string{"serve", "--config", broken + "x"}, []string{"broken.yamlx", "no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := runBinary(t, tc.args...)
			if code == 0 || stdout != "" {
				t.Errorf("exit code %d, printed %q", code, stdout)
			}
			for _, want := range tc.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("the error lacks %q:\n%s", want, stderr)
				}
			}
		})
	}
}

// TestDemoIsLocal: a demo lets every client do everything, so it listens on loopback whatever address is given.
func TestDemoIsLocal(t *testing.T) {
	p := startNode(t, "--demo", "--listen", "0.0.0.0:0", "--internal", "0.0.0.0:0")
	for _, addr := range []string{p.public, p.internal} {
		if !strings.HasPrefix(addr, "127.0.0.1:") {
			t.Errorf("listens on %s", addr)
		}
	}
	p.terminate() // then its output is complete
	if !strings.Contains(p.stderr.String(), "loopback only") {
		t.Errorf("does not say so:\n%s", p.stderr)
	}
}

// TestPubAndSub: the error messages of the two commands.
func TestPubAndSub(t *testing.T) {
	t.Parallel()
	p := startNode(t, "--demo")
	url := "--url=http://" + p.public
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"not JSON":          {[]string{"pub", "news", "hello", url}, "not JSON"},
		"no data":           {[]string{"pub", "news", url}, "data is missing"},
		"unknown namespace": {[]string{"pub", "nowhere:x", "1", url}, "unknown channel"},
		"remove a stream":   {[]string{"pub", "news", "--remove", "--key", "k", url}, "mode stream"},
		"clear and data":    {[]string{"pub", "quotes:x", "1", "--clear", url}, "leave out the data"},
		"nobody there":      {[]string{"pub", "news", "1", "--url=http://127.0.0.1:1"}, "check that a node is running there"},
		"sub of nowhere":    {[]string{"sub", "nowhere:x", url}, "unknown channel"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := runBinary(t, tc.args...)
			if code == 0 || !strings.Contains(stderr, tc.want) {
				t.Errorf("exit code %d:\n%s\nwant %q", code, stderr, tc.want)
			}
		})
	}
	if code, stdout, stderr := runBinary(t, "pub", "quotes:mine", `{"price": 1}`, "--key", "K", url); code != 0 || !strings.Contains(stdout, "offset") {
		t.Errorf("pub: %d %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := runBinary(t, "sub", "quotes:mine", "-n", "1", url); code != 0 || stdout != "K {\"price\":1}\n" {
		t.Errorf("sub: %d %q %s", code, stdout, stderr)
	}
	if code, stdout, stderr := runBinary(t, "pub", "quotes:mine", "--clear", url); code != 0 || stdout != "quotes:mine cleared\n" {
		t.Errorf("pub --clear: %d %q %s", code, stdout, stderr)
	}
	if code, stdout, stderr := runBinary(t, "pub", "quotes:mine", "2", "--key", "L", url); code != 0 {
		t.Errorf("pub: %d %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := runBinary(t, "sub", "quotes:mine", "-n", "1", url); code != 0 || stdout != "L 2\n" {
		t.Errorf("sub: %d %q %s", code, stdout, stderr)
	}
	markup := `"` + strings.Repeat("<", 60_000) + `"` // within the limit of a publication
	if code, _, stderr := runBinary(t, "pub", "quotes:mine", markup, "--key", "L", url); code != 0 {
		t.Errorf("pub: %d %s", code, stderr)
	}
	if code, stdout, stderr := runBinary(t, "sub", "quotes:mine", "-n", "1", url); code != 0 || stdout != "L "+markup+"\n" {
		t.Errorf("sub: %d, %d bytes, %s", code, len(stdout), stderr)
	}
}
