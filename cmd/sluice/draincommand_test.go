//go:build unix

package main_test

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sluice "github.com/sluice-push/sluice/cmd/sluice"
	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/internal/testwait"
)

// TestDrainCommand: the command drains a node, and returns when its process has ended.
func TestDrainCommand(t *testing.T) {
	t.Parallel()
	p := startDraining(t, "1h", "1h")
	var all []*clientconn.Conn
	for range 3 {
		all = append(all, connected(t, p))
	}
	code, stdout, stderr := runBinary(t, "drain", "--internal", p.internal, "--delay", "100ms", "--spread", "300ms", "--wait")
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) < 2 || lines[0] != "draining 3 clients: delay 100ms, spread 300ms, then the node ends" || lines[len(lines)-1] != "the node has ended" {
		t.Errorf("printed\n%s", stdout)
	}
	p.wantExit()
	for _, conn := range all {
		wantShutdown(t, conn)
	}
}

// startCommand starts the built command. It is killed when the test waits no longer.
func startCommand(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *lockedBuffer) {
	t.Helper()
	path, err := binary()
	must(t, err)
	cmd = exec.CommandContext(testwait.Context(t), path, args...)
	stdout, stderr = new(lockedBuffer), new(lockedBuffer)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	must(t, cmd.Start())
	return cmd, stdout, stderr
}

// TestDrainCommandStates: the command says what the node does now.
func TestDrainCommandStates(t *testing.T) {
	t.Parallel()
	p := startNode(t, "--insecure")
	first, second := connected(t, p), connected(t, p)
	cmd, stdout, stderr := startCommand(t, "drain", "--internal", p.internal, "--delay", "100ms", "--spread", "1h", "--wait")
	testwait.True(t, "the command says that clients are asked", func() bool {
		said := stdout.String()
		return strings.HasPrefix(said, "draining 2 clients: delay 100ms, spread 1h, then the node ends\nasking ") && strings.HasSuffix(said, " clients to connect again\n")
	})
	p.signal()
	testwait.Return(t, func() { _ = cmd.Wait() })
	if code := cmd.ProcessState.ExitCode(); code != 0 || !strings.HasSuffix(stdout.String(), "the node has ended\n") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	p.wantExit()
	wantShutdown(t, first)
	wantShutdown(t, second)
}

// TestDrainCommandAgain: the command begins a drain with the times of the node, reports one that goes on, and waits for its end.
func TestDrainCommandAgain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end    func(p *process)
		code   int
		stdout string
		stderr string
	}{
		"a signal": {(*process).signal, 0, "the node has ended\n", ""},
		"killed":   {(*process).kill, 1, "", "check whether the node runs"},
	} {
		t.Run(name, func(t *testing.T) {
			p := startDraining(t, "50m", "1h")
			connected(t, p)
			if code, stdout, stderr := runBinary(t, "drain", "--internal", "http://"+p.internal); code != 0 ||
				stdout != "draining 1 clients: delay 50m, spread 1h, then the node ends\n" {
				t.Errorf("exit code %d: %s%s", code, stdout, stderr)
			}
			cmd, stdout, stderr := startCommand(t, "drain", "--internal", p.internal, "--wait", "--delay", "1s")
			testwait.True(t, "the command says how far the drain is", func() bool {
				said := stdout.String()
				return strings.HasPrefix(said, "the node drains already, for ") && strings.HasSuffix(said, "1 of 1 clients are left; delay 50m, spread 1h\n")
			})
			tt.end(p)
			testwait.Return(t, func() { _ = cmd.Wait() })
			if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.HasSuffix(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("exit code %d: %s%s", code, stdout, stderr)
			}
		})
	}
}

// TestDrainCommandRefused: the errors of the command.
func TestDrainCommandRefused(t *testing.T) {
	t.Parallel()
	p := startNode(t, "--insecure")
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"nobody there":      {[]string{"--internal", "127.0.0.1:1"}, 1, "http://127.0.0.1:1 does not answer"},
		"public address":    {[]string{"--internal", p.public}, 1, "check that it is the internal address of a node"},
		"no TLS":            {[]string{"--internal", "https://" + p.internal}, 1, "does not answer"},
		"no address":        {[]string{"--internal", "9000"}, 2, `--internal "9000" is not an address`},
		"no URL":            {[]string{"--internal", "ftp://127.0.0.1:9000"}, 2, "is not a URL"},
		"negative delay":    {[]string{"--delay=-1s"}, 2, "--delay: -1s is out of range: use 0s to 1h"},
		"spread too long":   {[]string{"--spread=90m"}, 2, "--spread: 1h30m is out of range"},
		"key without cert":  {[]string{"--key", os.Args[0]}, 2, "add --cert"},
		"no PEM":            {[]string{"--internal", p.internal, "--ca", os.Args[0]}, 1, "no certificate in PEM"},
		"no certificate":    {[]string{"--internal", p.internal, "--cert", os.Args[0]}, 1, "cannot load the client certificate"},
		"unknown arguments": {[]string{"now"}, 2, "now"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := sluice.RunCommand("", nil, append([]string{"drain"}, tt.args...)...)
			if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d: %s%s", code, stdout, stderr)
			}
		})
	}
	p.awaitReady()
}

// TestDrainCommandAddress: an address as a node listens on it is one of this machine.
func TestDrainCommandAddress(t *testing.T) {
	t.Parallel()
	p := startDraining(t, "1h", "0s")
	_, port, _ := strings.Cut(p.internal, ":")
	for _, address := range []string{":" + port, "0.0.0.0:" + port, "localhost:" + port, "http://" + p.internal + "/"} {
		code, stdout, stderr := sluice.RunCommand("", nil, "drain", "--internal", address)
		if code != 0 || !strings.Contains(stdout, "delay 1h, spread 0s") || stderr != "" {
			t.Errorf("%s: exit code %d: %s%s", address, code, stdout, stderr)
		}
	}
}

// TestDrainCommandTLS: the command talks to an internal address that requires a client certificate.
func TestDrainCommandTLS(t *testing.T) {
	t.Parallel()
	cert, _ := writeCertificate(t)
	ca, issue := clientAuthority(t)
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	must(t, os.WriteFile(file, fmt.Appendf(nil, "internal_tls: {cert: %q, key: %q, client_ca: %q, require_client: true}\n", cert, cert, ca), 0o600))
	p := startNode(t, "--insecure", "--config", file)
	if code, _, stderr := runBinary(t, "drain", "--internal", strings.TrimPrefix(p.internal, "https://")); code != 1 || !strings.Contains(stderr, "https://") {
		t.Errorf("without TLS: exit code %d: %s", code, stderr)
	}
	if code, _, stderr := runBinary(t, "drain", "--internal", p.internal, "--ca", cert); code != 1 || !strings.Contains(stderr, "certificate required") {
		t.Errorf("without a certificate: exit code %d: %s", code, stderr)
	}
	operator := issue("operator")
	key, err := x509.MarshalPKCS8PrivateKey(operator.PrivateKey.(*ecdsa.PrivateKey))
	must(t, err)
	own := filepath.Join(t.TempDir(), "operator.pem")
	must(t, os.WriteFile(own, append(
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: operator.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...), 0o600))
	address := strings.TrimPrefix(p.internal, "https://")
	if code, stdout, stderr := runBinary(t, "drain", "--internal", address, "--ca", cert, "--cert", own, "--wait"); code != 0 || !strings.HasSuffix(stdout, "the node has ended\n") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	p.wantExit()
}
