package main_test

import (
	"bufio"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestGrpcurl: grpcurl finds the services by reflection and calls them.
func TestGrpcurl(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "grpcurl")
	build := exec.CommandContext(t.Context(), "go", "build", "-modfile=tools/tools.mod", "-o", program, "github.com/fullstorydev/grpcurl/cmd/grpcurl")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p := startNode(t, "--insecure")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	list, err := exec.CommandContext(ctx, program, "-plaintext", p.public, "list").Output()
	must(t, err)
	for _, service := range []string{"sluice.client.v1.Client", "centrifugal.centrifugo.unistream.CentrifugoUniStream", "grpc.health.v1.Health"} {
		if !strings.Contains(string(list), service+"\n") {
			t.Errorf("%s is not listed:\n%s", service, list)
		}
	}
	call := exec.CommandContext(ctx, program, "-plaintext", "-d", `{"id":1,"connect":{}}{"id":2,"history":{"channel":"news","limit":1}}`, p.public,
		"sluice.client.v1.Client/Connect")
	out, err := call.StdoutPipe()
	must(t, err)
	must(t, call.Start())
	defer func() { _ = call.Wait() }()
	defer cancel() // the session goes on
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), `"epoch"`) {
			return
		}
	}
	t.Error("there is no reply to the history command")
}
