package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/bench/internal/loadtest"
)

func TestMain(m *testing.M) { loadtest.Main(m, main) }

// TestRun lets a few clients through two storms. The limit is lower than their number, so some attempts fail.
func TestRun(t *testing.T) {
	var out strings.Builder
	err := run(context.Background(), []string{
		"-clients", "60", "-connects", "0,40", "-rounds", "1", "-duration", "2s", "-channels", "10", "-retry-min", "10ms", "-retry-max", "100ms",
	}, &out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n| none | ", "\n| 40 a second | ", " | 503: ", " none was lost, doubled"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	for _, args := range [][]string{{"-connects", "x"}, {"-connects", "-1"}, {"-channels", "1"}, {"-rounds", "0"}, {"-clients", "0"}} {
		if err := run(context.Background(), args, &out); err == nil || !strings.Contains(err.Error(), args[0]) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestNodeEnds: a node that ends while it is measured ends the run, with what it said.
func TestNodeEnds(t *testing.T) {
	folder := t.TempDir()
	// Stands for sluice: it says where a node listens that is ready, and as the bench it ends that node and waits for its own end.
	program := filepath.Join(folder, "sluice")
	script := "#!/bin/sh\nif [ \"$1\" = bench ]; then kill \"$(cat '" + folder + "/pid')\"; exec sleep 600; fi\n" +
		"echo $$ > '" + folder + "/pid'\necho 'it hurts' >&2\necho \"  websocket ws://127.0.0.1:1/connection/websocket\"\n" +
		"echo \"  health http://" + healthy(t) + "/health/ready\"\nexec sleep 600\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	err := run(context.Background(), []string{"-sluice", program, "-clients", "1", "-rounds", "1"}, &strings.Builder{})
	if err == nil || !strings.Contains(err.Error(), "the node ended: signal: terminated\nit hurts") {
		t.Error(err)
	}
}

// TestTokens: each token is of a user of its own, and its signature fits the public key.
func TestTokens(t *testing.T) {
	keyFile, tokenFile, err := writeTokens(t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	read := func(file string) []byte {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	block, _ := pem.Decode(read(keyFile))
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	tokens := strings.Fields(string(read(tokenFile)))
	if len(tokens) != 3 {
		t.Fatalf("%d tokens", len(tokens))
	}
	for i, token := range tokens {
		at := strings.LastIndexByte(token, '.')
		sum := sha256.Sum256([]byte(token[:at]))
		signature, err := base64.RawURLEncoding.DecodeString(token[at+1:])
		if err != nil || len(signature) != 64 {
			t.Fatalf("%d bytes of signature, %v", len(signature), err)
		}
		r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
		if !ecdsa.Verify(parsed.(*ecdsa.PublicKey), sum[:], r, s) {
			t.Errorf("the signature of %s is wrong", token)
		}
		claims, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
		if err != nil || !strings.Contains(string(claims), fmt.Sprintf(`"sub":"user-%d"`, i)) {
			t.Errorf("claims %s, %v", claims, err)
		}
	}
}

// TestRefusals: attempts count by status and code; what has none counts by its text.
func TestRefusals(t *testing.T) {
	got := refusals(map[string]int{
		"websocket: handshake: the server answered with status 503: too many": 3,
		"the server answered with status 503: full":                           1,
		"connect: too many requests (code 111)":                               5,
		"closed by the server: 3013 too many requests":                        7,
		"connection reset by peer":                                            2,
		"dial tcp 127.0.0.1:3500: i/o timeout":                                1,
	})
	want := map[string]int{"503": 4, "111": 5, "3013": 7, "connection reset by peer": 2, "dial tcp 127.0.0.1:3500: i/o timeout": 1}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestCPU: the CPU time of the storm is that between the cut and the last client, with parts of moments.
func TestCPU(t *testing.T) {
	var r result
	text := `{"storm": {"caught_up_s": 2}, "moments": [{"s": 1, "server_cpu": 0.5}, {"s": 2, "server_cpu": 0.25}, {"s": 4, "server_cpu": 2}, {"s": 6, "server_cpu": 1}]}`
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ cut, seconds, before float64 }{{2, 4, 0.375}, {3, 3, 2.75 / 3}} {
		if seconds, before := r.cpu(tt.cut); math.Abs(seconds-tt.seconds) > 1e-9 || math.Abs(before-tt.before) > 1e-9 {
			t.Errorf("cut after %v: %v and %v before, want %v and %v", tt.cut, seconds, before, tt.seconds, tt.before)
		}
	}
}

// TestCheck: only a run in which all came back and got all is accepted.
func TestCheck(t *testing.T) {
	const perfect = `{
		"connects": {"clients": 2}, "publications": {"due": 3, "sent": 3}, "deliveries": {"expected": 6, "received": 6},
		"storm": {"cut": 2, "back": 2, "resumed": 2}, "moments": [{"s": 1}]}`
	for name, c := range map[string]struct{ from, to, want string }{
		"perfect":   {"", "", ""},
		"absent":    {`"clients": 2`, `"clients": 1`, "1 connected"},
		"not cut":   {`"cut": 2`, `"cut": 1`, "1 were cut"},
		"away":      {`"back": 2`, `"back": 1`, "1 came back"},
		"anew":      {`"resumed": 2`, `"resumed": 1`, "1 resumed"},
		"refused":   {`"sent": 3`, `"sent": 2`, "of 3 publications 2"},
		"missing":   {`"received": 6`, `"received": 5`, "not exact"},
		"lost":      {`"expected"`, `"lost": 1, "expected"`, "not exact"},
		"left out":  {`"expected"`, `"announced": 1, "expected"`, "not exact"},
		"doubled":   {`"expected"`, `"duplicated": 1, "expected"`, "not exact"},
		"order":     {`"expected"`, `"disordered": 1, "expected"`, "not exact"},
		"corrupt":   {`"expected"`, `"corrupt": 1, "expected"`, "not exact"},
		"nothing":   {`"expected": 6, "received": 6`, ``, "not exact"},
		"no figure": {`[{"s": 1}]`, `[]`, "nothing of the node's CPU time"},
	} {
		var r result
		if err := json.Unmarshal([]byte(strings.Replace(perfect, c.from, c.to, 1)), &r); err != nil {
			t.Fatal(name, err)
		}
		err := r.check(&storms{clients: 2})
		if c.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
