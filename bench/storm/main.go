// Command storm measures how 15,000 clients come back to the command sluice after all of them were cut at once, with limits.connects and without.
// Each client is a user of its own with an ES256 token, and is subscribed to several channels with history. Publications go on all the time. In each
// round a fresh node serves each limit in turn. The clients are those of sluice bench, which reset their connections, connect again
// all together and resume, and verify every publication: a run in which a client lost one or got one twice is an error.
//
//	go run ./storm
//	go run ./storm -connects 0,500,2000 -rounds 5 -clients 10000
//
// Linux is needed. The machine should have nothing else to do.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-push/sluice/bench/internal/child"
	"github.com/sluice-push/sluice/bench/internal/node"
	"github.com/sluice-push/sluice/bench/internal/program"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// config is the configuration of a node. Its arguments are the broker, the file of the public key, and limits.connects.
const config = `
broker: {kind: %s}
auth: {jwt: {algorithms: [ES256], public_key_file: %q}}
limits: {connects: %d}
namespaces:
  - name: ticks
    mode: stream
    history: {size: 10000, age: 1h}
    allow: {subscribe: [user], publish: [api], history: [], presence: []}
`

func main() { program.Main("storm", run) }

// storms says what is measured.
type storms struct {
	binary, broker, folder, key, tokens string
	connects                            []int // limits.connects of the nodes
	clients, rounds                     int
	args                                []string // of sluice bench, for all nodes
	duration, patience                  time.Duration
}

func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	flags := flag.NewFlagSet("storm", flag.ContinueOnError)
	connects := flags.String("connects", "0,1000", "limits.connects of the nodes; 0 is none")
	s := new(storms)
	flags.IntVar(&s.clients, "clients", 15_000, "how many clients there are")
	flags.IntVar(&s.rounds, "rounds", 3, "how often each node is measured")
	flags.StringVar(&s.broker, "broker", "memory", "the broker of the nodes, memory or nats")
	channels := flags.Int("channels", 150, "how many channels there are, two or more")
	each := flags.Int("each", 5, "to how many of them each client is subscribed")
	rate := flags.Float64("rate", 30, "publications a second, in all channels together")
	flags.DurationVar(&s.duration, "duration", 40*time.Second, "for how long is published; in the middle of it the clients are cut")
	flags.DurationVar(&s.patience, "patience", 2*time.Minute, "for how long the last clients may come back after that")
	least := flags.Duration("retry-min", 500*time.Millisecond, "the shortest pause before a refused client tries again, as in the SDKs")
	most := flags.Duration("retry-max", 20*time.Second, "the longest")
	path := flags.String("sluice", "", "the command sluice; built from this repository when empty")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if s.connects, err = numbers(*connects); err != nil {
		return err
	}
	if *channels < 2 || s.rounds < 1 || s.clients < 1 {
		return errors.New("-channels has to be 2 or more, -rounds and -clients 1 or more")
	}
	s.args = []string{
		"--shape", "storm", "--clients", strconv.Itoa(s.clients), "--rejoin", strconv.Itoa(s.clients),
		"--channels", strconv.Itoa(*channels), "--each", strconv.Itoa(*each), "--rate", strconv.FormatFloat(*rate, 'g', -1, 64),
		"--duration", s.duration.String(), "--patience", s.patience.String(), "--retry-min", least.String(), "--retry-max", most.String(),
	}
	var remove func()
	if s.binary, remove, err = node.Build(ctx, *path); err != nil {
		return err
	}
	defer remove()
	if s.folder, err = os.MkdirTemp("", "sluice-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.folder)) }()
	if s.key, s.tokens, err = writeTokens(s.folder, s.clients); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stdout, "%v\n", report.ThisMachine("go run ./storm "+strings.Join(args, " "), nil))
	results, err := s.measure(ctx)
	if err != nil {
		return err
	}
	title := fmt.Sprintf("%d clients with ES256 tokens, each subscribed to %d of %d channels, %v publications a second, broker %s", s.clients, *each, *channels, *rate, s.broker)
	return table(title, s.connects, results).Markdown(stdout)
}

// numbers parses numbers of at least 0 with commas between them.
func numbers(list string) (all []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("-connects: %q is no number of clients a second", text)
		}
		all = append(all, n)
	}
	return all, nil
}

// measure returns the results of all rounds, by the index of the limit. The limits take turns.
func (s *storms) measure(ctx context.Context) ([][]result, error) {
	results := make([][]result, len(s.connects))
	for round := range s.rounds {
		for i, connects := range s.connects {
			r, err := s.one(ctx, connects)
			if err != nil {
				return nil, fmt.Errorf("round %d, limits.connects %d: %w", round+1, connects, err)
			}
			results[i] = append(results[i], r)
		}
	}
	return results, nil
}

// one measures a storm of a fresh node.
func (s *storms) one(ctx context.Context, connects int) (r result, err error) {
	n, err := node.Start(s.binary, fmt.Sprintf(config, s.broker, s.key, connects), "--insecure")
	if err != nil {
		return r, err
	}
	defer n.Stop()
	ctx, cancel := n.While(ctx)
	defer cancel()
	file := filepath.Join(s.folder, "result.json")
	args := append([]string{
		"bench", "--plain", "--url", "http://" + n.Public, "--server-pid", strconv.Itoa(n.PID()), "--tokens", s.tokens, "--json", file,
	}, s.args...)
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.WaitDelay = 10 * time.Second // its client processes end with it
	out, err := cmd.CombinedOutput()
	if ended := context.Cause(ctx); ended != nil {
		return r, ended
	}
	if err != nil {
		return r, fmt.Errorf("sluice bench: %w\n%s\n%s", err, out, n.Said())
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return r, err
	}
	if r.Peak, err = child.Peak(n.PID()); err != nil {
		return r, err
	}
	r.cutAt = s.duration.Seconds() / 2
	return r, r.check(s)
}
