package main_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/recording"
)

// tape is what recordings hold, read without the help of what is tested.
type tape struct {
	name    string
	files   []string
	tracks  map[string]*track // by symbol
	frames  int               // with a symbol
	skipped int               // without
	bytes   int               // of the frames with a symbol
}

type track struct {
	file  string
	count int
	hash  hash.Hash // over each frame and a newline
	last  string
}

// readTape reads recordings. Each symbol must be in one of them only, so that its order is that of a file.
func readTape(t *testing.T, name, folder string, files ...string) *tape {
	t.Helper()
	out := &tape{name: name, tracks: map[string]*track{}}
	for _, file := range files {
		path := filepath.Join(folder, filepath.FromSlash(file))
		out.files = append(out.files, path)
		if err := out.read(path); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func (p *tape) read(path string) error {
	r, err := recording.Open(path, nil)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	for {
		frame, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if frame.Symbol == "" {
			p.skipped++
			continue
		}
		k := p.tracks[frame.Symbol]
		if k == nil {
			k = &track{file: path, hash: sha256.New()}
			p.tracks[frame.Symbol] = k
		}
		if k.file != path {
			return fmt.Errorf("%s is in %s and in %s", frame.Symbol, k.file, path)
		}
		// White space would not survive the way to the node; such recordings cannot be compared byte by byte.
		if compact, err := json.Marshal(json.RawMessage(frame.Data)); err != nil || !bytes.Equal(compact, frame.Data) {
			return fmt.Errorf("%s:%d is not compact (%w)", path, frame.Line, err)
		}
		k.count++
		_, _ = k.hash.Write(frame.Data) // never fails
		_, _ = k.hash.Write([]byte{'\n'})
		k.last = string(frame.Data)
		p.frames++
		p.bytes += len(frame.Data)
	}
}

// streams returns what a subscriber of a stream per symbol gets.
func (p *tape) streams() map[string]*expectation {
	want := map[string]*expectation{}
	for symbol, k := range p.tracks {
		want["ticks:"+symbol] = &expectation{count: k.count, hash: [sha256.Size]byte(k.hash.Sum(nil))}
	}
	return want
}

// table returns what a subscriber of one table with a row per symbol ends with.
func (p *tape) table() map[string]*expectation {
	rows := map[string]string{}
	for symbol, k := range p.tracks {
		rows[symbol] = k.last
	}
	return map[string]*expectation{"ticks:all": {rows: rows}}
}

// tapes returns the recordings to be replayed: the cut in testdata, and full ones where SLUICE_DATA says that they are.
func tapes(t *testing.T) []*tape {
	t.Helper()
	out := []*tape{readTape(t, "cut", filepath.Join("..", "..", "testdata"),
		"binance-2024-08-08/spot_btcusdt_20240808.gz", "binance-2024-08-08/spot_ethusdt_20240808.gz", "exchange-frames/COINBASE.ws.28.0.gz")}
	if folder := os.Getenv("SLUICE_DATA"); folder != "" {
		out = append(out, readTape(t, "full", folder, "binance-2024-08-08/spot_btcusdt_20240808.gz", "exchange-frames/COINBASE.ws.28.0.gz"))
	}
	return out
}

// The kinds of node on which recordings are replayed, by what namespace ticks is. The history holds all of a tape.
const (
	streamConfig = `
limits: {message_bytes: 1MiB}
ping: {interval: 60s, timeout: 50s}   # the machine of a test may be busy
namespaces:
  - {name: ticks, mode: stream, history: {size: 200000, age: 1h, bytes: 512MiB}}
`
	tableConfig = `
limits: {message_bytes: 1MiB}
ping: {interval: 60s, timeout: 50s}
namespaces:
  - {name: ticks, mode: table}
`
)

// startNodeWith starts a node with a configuration.
func startNodeWith(t *testing.T, config string, args ...string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return startNode(t, append([]string{"--insecure", "--config", file}, args...)...)
}

// TestReplay: recorded traffic replayed at the highest speed to 20 WebSocket and 10 SSE clients arrives whole and in order, stream by
// stream, and a table ends with the last frame of every symbol; also at clients that are cut over and over and resume.
func TestReplay(t *testing.T) {
	for _, p := range tapes(t) {
		for _, tc := range []struct {
			name, config string
			args         []string
			want         map[string]*expectation
			cut          bool
		}{
			{"streams", streamConfig, []string{"--channel", "ticks:{symbol}"}, p.streams(), false},
			{"table", tableConfig, []string{"--channel", "ticks:all", "--key", "{symbol}"}, p.table(), false},
			{"streams, cut", streamConfig, []string{"--channel", "ticks:{symbol}"}, p.streams(), true},
			{"table, cut", tableConfig, []string{"--channel", "ticks:all", "--key", "{symbol}"}, p.table(), true},
		} {
			t.Run(p.name+"/"+tc.name, func(t *testing.T) {
				node := startNodeWith(t, tc.config)
				clients := viewers(node, tc.want)
				var way meter
				if tc.cut {
					cutSome(clients, p, &way)
				}
				viewing := startCrowd(t, clients...)
				before := time.Now()
				p.replay(t, node, len(tc.want), tc.args...)
				way.end()
				viewing.awaitComplete()
				checkReplay(viewing, node, tc.want)
				if tc.cut {
					checkCuts(t, clients)
				}
				wall := time.Since(before)
				t.Logf("%d publications to %d clients in %v, %.0f/s; %d cuts; the node used %v of CPU",
					p.frames, len(clients), wall.Round(time.Millisecond), float64(p.frames)/wall.Seconds(), viewing.cuts(), node.cpu())
			})
		}
	}
}

// viewers returns 20 WebSocket and 10 SSE clients with the same expectations.
func viewers(node *process, want map[string]*expectation) []*feedClient {
	var clients []*feedClient
	for i := range 20 {
		clients = append(clients, newFeedClient(fmt.Sprintf("WebSocket client %d", i), node.public, overWebSocket, want))
	}
	for i := range 10 {
		clients = append(clients, newFeedClient(fmt.Sprintf("SSE client %d", i), node.public, overSSE, want))
	}
	return clients
}

// The clients that are cut: three of one kind, two of the other. The first client of all is not, and the way it has come is what the
// others are measured by.
const cutFrom, cutTo = 17, 22

// cutSome gives some clients blades that cut them about 20 times in the course of a tape.
func cutSome(clients []*feedClient, p *tape, way *meter) {
	for _, a := range clients[0].book.accounts {
		a.taken = func([]byte) { way.move() }
	}
	for i, c := range clients[cutFrom:cutTo] {
		c.blade = &blade{random: rand.New(rand.NewPCG(uint64(i), 2)), life: p.bytes / 20, meter: way, gap: p.frames / 50}
	}
}

// checkCuts fails the test if a client that was to be cut was not, or did not resume.
func checkCuts(t *testing.T, clients []*feedClient) {
	t.Helper()
	for i, c := range clients {
		switch cut := cutFrom <= i && i < cutTo; {
		case cut && (c.cuts == 0 || c.book.resumed() == 0):
			t.Errorf("%s was cut %d times and resumed %d subscriptions", c.name, c.cuts, c.book.resumed())
		case !cut && c.cuts > 0:
			t.Errorf("%s was cut", c.name)
		}
	}
}

// checkReplay compares what the clients have with what was expected, and with how far the node says the channels are.
func checkReplay(c *crowd, node *process, want map[string]*expectation) {
	c.t.Helper()
	heads := map[string]uint64{}
	for name := range want {
		heads[name] = node.head(name)
	}
	for _, client := range c.clients {
		if wrong := client.book.check(heads); wrong != "" {
			c.t.Errorf("%s:\n%s", client.name, wrong)
		}
	}
}

// head returns the offset of a channel's newest publication.
func (p *process) head(channel string) uint64 {
	p.t.Helper()
	result := p.api("history", map[string]any{"channel": channel, "limit": 1, "reverse": true})
	if pubs, ok := result["publications"].([]any); ok && len(pubs) == 1 {
		if offset, ok := pubs[0].(map[string]any)["offset"].(float64); ok {
			return uint64(offset)
		}
	}
	p.t.Fatalf("%s: history answers %v", channel, result)
	return 0
}

// replay runs sluice replay as a user would and checks what it prints in the end.
func (p *tape) replay(t *testing.T, node *process, channels int, args ...string) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), feedTime)
	defer cancel()
	args = append(append([]string{"replay", "--url", "http://" + node.public, "--speed", "max"}, args...), p.files...)
	cmd := exec.CommandContext(ctx, path, args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("replay: %v\n%s%s", err, out, &errs)
	}
	var published, to, skipped int
	summary := strings.ReplaceAll(string(out), ",", "")
	_, err = fmt.Sscanf(summary, "%d publications to %d", &published, &to)
	if _, rest, found := strings.Cut(summary, "; "); found && err == nil {
		_, err = fmt.Sscanf(rest, "%d frame", &skipped)
	}
	if err != nil || published != p.frames || to != channels || skipped != p.skipped {
		t.Errorf("replay says %q (%v), want %d publications to %d channels and %d frames left out", out, err, p.frames, channels, p.skipped)
	}
	t.Logf("replay: %s", strings.TrimSpace(string(out)))
}
