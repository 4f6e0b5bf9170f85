// Command tls measures what TLS costs the command sluice. Memory: what an idle WebSocket client costs over TLS, beside a client without TLS, and
// beside a server on net/http, crypto/tls and gws, which has a goroutine for each connection. Handshakes: how many the node makes in a second, full and
// resumed, and what CPU time they take, beside ListenAndServeTLS of net/http; both take turns, round after round. The certificate is of ECDSA P-256.
//
//	go run ./tls
//	go run ./tls -parts handshakes -rounds 9 -seconds 5
//	go run ./tls -parts memory -clients 2000
//
// Linux is needed. The machine should have nothing else to do.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sluice-push/sluice/bench/internal/node"
	"github.com/sluice-push/sluice/bench/internal/program"
	"github.com/sluice-push/sluice/bench/internal/report"
)

func main() {
	program.Main("tls", func(ctx context.Context, args []string, stdout io.Writer) error {
		return run(ctx, args, os.Stdin, stdout)
	})
}

// costs says what is measured.
type costs struct {
	binary                   string // the command sluice
	certificate              *certificate
	clients, rounds, workers int
	length, rest             time.Duration // of a run of handshakes, and before memory is looked at
}

// run is main, or the process of a server when the first argument is serve.
func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) > 0 && args[0] == "serve" {
		return serve(args[1:], stdin, stdout)
	}
	flags := flag.NewFlagSet("tls", flag.ContinueOnError)
	c := new(costs)
	parts := flags.String("parts", "memory,handshakes", "what is measured")
	flags.IntVar(&c.clients, "clients", 10_000, "how many clients are idle, more than "+fmt.Sprint(firstClients))
	flags.DurationVar(&c.rest, "rest", 3*time.Second, "how long they rest before memory is looked at")
	flags.IntVar(&c.rounds, "rounds", 5, "how often handshakes are measured")
	seconds := flags.Float64("seconds", 3, "for how long they are measured each time")
	flags.IntVar(&c.workers, "workers", 16, "how many connections there are at a time then")
	path := flags.String("sluice", "", "the command sluice; built from this repository when empty")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c.length = time.Duration(*seconds * float64(time.Second))
	if c.clients <= firstClients || c.rounds < 1 || c.workers < 1 || c.length <= 0 {
		return fmt.Errorf("-clients has to be above %d, -rounds, -workers and -seconds above 0", firstClients)
	}
	binary, remove, err := node.Build(ctx, *path)
	if err != nil {
		return err
	}
	defer remove()
	c.binary = binary
	if c.certificate, err = newCertificate(); err != nil {
		return err
	}
	defer c.certificate.remove()
	_, _ = fmt.Fprintf(stdout, "%v\n", report.ThisMachine("go run ./tls "+strings.Join(args, " "), []string{"github.com/lxzan/gws"}))
	for part := range strings.SplitSeq(*parts, ",") {
		var t *report.Table
		var err error
		switch part {
		case "memory":
			t, err = c.memory(ctx)
		case "handshakes":
			t, err = c.handshakes(ctx)
		default:
			err = fmt.Errorf("there is no part %q, only memory and handshakes", part)
		}
		if err == nil {
			err = t.Markdown(stdout)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
