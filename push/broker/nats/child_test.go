package nats_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/nats"
	"github.com/sluice-push/sluice/push/pushtest"
)

// childFolder names the variable of the environment that makes a process of these tests a child: it publishes to an embedded server
// in that folder until it is killed.
const childFolder = "SLUICE_TEST_CHILD_FOLDER"

// childPadding names the variable with the number of spaces that a child appends to the data of each publication.
const childPadding = "SLUICE_TEST_CHILD_PADDING"

// childPublishers is the number of concurrent publishers in a child.
const childPublishers = 4

// acked is the report of a child about an acknowledged publication, one a line.
type acked struct {
	Channel string        `json:"channel"`
	Key     string        `json:"key"`
	Data    string        `json:"data"`
	At      push.Position `json:"at"`
}

func isChild() bool { return os.Getenv(childFolder) != "" }

func childNamespaces() []broker.Namespace {
	return []broker.Namespace{
		{Name: "s", Mode: push.Stream, Partitions: 1, Durable: true},
		{Name: "t", Mode: push.Table, Partitions: 2, Durable: true},
	}
}

// runChild is the main function of a child.
func runChild() int {
	ctx := context.Background()
	b, err := nats.New(ctx, &nats.Options{Dir: os.Getenv(childFolder)})
	for _, ns := range childNamespaces() {
		if err == nil {
			err = b.Open(ctx, ns)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	padding, _ := strconv.Atoi(os.Getenv(childPadding)) // none is 0
	spaces := strings.Repeat(" ", padding)
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	var publishers sync.WaitGroup
	for n := range childPublishers {
		publishers.Go(func() {
			for i := 0; ; i++ {
				a := acked{Channel: fmt.Sprintf("s:%d", i%7), Data: fmt.Sprintf("%d/%d/%d", os.Getpid(), n, i)}
				if i%2 == 1 {
					a.Channel, a.Key = fmt.Sprintf("t:%d", i%5), a.Data
				}
				var err error
				if a.At, err = b.Publish(ctx, a.Channel, push.Publication{Key: a.Key, Data: []byte(a.Data + spaces)}, broker.PublishOptions{}); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				mu.Lock()
				err = out.Encode(a)
				mu.Unlock()
				if err != nil {
					os.Exit(1)
				}
			}
		})
	}
	publishers.Wait()
	return 0
}

// killedChild lets a child publish in a folder until it has reported n acknowledged publications, and kills it. It returns all reported ones.
func killedChild(t *testing.T, dir string, n int) []acked {
	t.Helper()
	all := killedWhen(t, dir, func(all []acked) bool { return len(all) == n })
	if len(all) < n {
		t.Fatalf("only %d publications were acknowledged", len(all))
	}
	return all
}

// killedWhen lets a child publish in a folder until isTime returns true, and kills it.
func killedWhen(t *testing.T, dir string, isTime func([]acked) bool) []acked {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childFolder+"="+dir)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(pushtest.Patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	var all []acked
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil { // a line that is cut off does not count
			break
		}
		var a acked
		if err := json.Unmarshal(line, &a); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if all = append(all, a); isTime(all) {
			_ = cmd.Process.Kill()
		}
	}
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait() // it returns an error because the child was killed
	if complaints.Len() > 0 {
		t.Fatalf("after %d publications: %s", len(all), complaints.String())
	}
	return all
}

// reopen opens a broker on the folder of a child.
func reopen(t *testing.T, dir string, logger *slog.Logger) *nats.Broker {
	t.Helper()
	b := open(t, &nats.Options{Dir: dir, Logger: logger})
	t.Cleanup(func() { _ = b.Close() })
	for _, ns := range childNamespaces() {
		if err := b.Open(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// missing returns how many of the acknowledged publications cannot be loaded, and the epochs of the partitions.
func missing(t *testing.T, b *nats.Broker, all []acked) (n int, epochs map[string]bool) {
	t.Helper()
	epochs = make(map[string]bool)
	there := make(map[acked]bool)
	for _, a := range all {
		if there[acked{Channel: a.Channel}] {
			continue
		}
		there[acked{Channel: a.Channel}] = true
		h, err := b.Load(t.Context(), a.Channel, broker.LoadOptions{}, func(p broker.Message) error {
			there[acked{Channel: a.Channel, Key: p.Key, Data: strings.TrimRight(string(p.Data), " "), At: push.Position{Offset: p.Offset}}] = true
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		epochs[h.Epoch] = true
	}
	for _, a := range all {
		a.At.Epoch = ""
		if !there[a] {
			n++
		}
	}
	return n, epochs
}

// TestKilled: kill -9 loses nothing that was acknowledged, and no epoch changes, however often.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all []acked
	for round := range 3 {
		all = append(all, killedChild(t, dir, 500*(round+1))...)
	}
	before := make(map[string]bool)
	for _, a := range all {
		before[a.At.Epoch] = true
	}
	n, epochs := missing(t, reopen(t, dir, nil), all)
	if n > 0 {
		t.Errorf("%d of %d acknowledged publications are gone", n, len(all))
	}
	for e := range epochs {
		if !before[e] {
			t.Errorf("epoch %q is new", e)
		}
	}
	if len(before) != 3 {
		t.Errorf("there were %d epochs, not one for each partition", len(before))
	}
}
