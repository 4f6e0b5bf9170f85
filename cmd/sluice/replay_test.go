package main_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-push/sluice/cmd/sluice/internal/recording"
)

// traffic is the content of recordings, read without the code under test.
type traffic struct {
	name     string
	files    []string
	bySymbol map[string]*symbolTraffic // by symbol
	frames   int                       // number of frames with a symbol
	skipped  int                       // number of frames without one
	bytes    int                       // size of the frames with a symbol
}

type symbolTraffic struct {
	file  string
	count int
	hash  hash.Hash // of each frame and a newline
	last  string
}

// readTraffic reads recordings. Each symbol must be in one of them only, so that its order is that of a file.
func readTraffic(t *testing.T, name, folder string, files ...string) *traffic {
	t.Helper()
	out := &traffic{name: name, bySymbol: map[string]*symbolTraffic{}}
	for _, file := range files {
		path := filepath.Join(folder, filepath.FromSlash(file))
		out.files = append(out.files, path)
		if err := out.read(path); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func (p *traffic) read(path string) error {
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
		k := p.bySymbol[frame.Symbol]
		if k == nil {
			k = &symbolTraffic{file: path, hash: sha256.New()}
			p.bySymbol[frame.Symbol] = k
		}
		if k.file != path {
			return fmt.Errorf("%s is in %s and in %s", frame.Symbol, k.file, path)
		}
		// White space would not survive the way through the node, so such recordings cannot be compared byte by byte.
		if compact, err := json.Marshal(json.RawMessage(frame.Data)); err != nil || !bytes.Equal(compact, frame.Data) {
			return fmt.Errorf("%s:%d is not compact (%w)", path, frame.Line, err)
		}
		k.count++
		_, _ = k.hash.Write(frame.Data) // never returns an error
		_, _ = k.hash.Write([]byte{'\n'})
		k.last = string(frame.Data)
		p.frames++
		p.bytes += len(frame.Data)
	}
}

// streams returns what a subscriber of one stream per symbol must receive.
func (p *traffic) streams() map[string]*expectation {
	want := map[string]*expectation{}
	for symbol, k := range p.bySymbol {
		want["ticks:"+symbol] = &expectation{count: k.count, hash: [sha256.Size]byte(k.hash.Sum(nil))}
	}
	return want
}

// table returns the final rows of a subscriber of one table with a row per symbol.
func (p *traffic) table() map[string]*expectation {
	rows := map[string]string{}
	for symbol, k := range p.bySymbol {
		rows[symbol] = k.last
	}
	return map[string]*expectation{"ticks:all": {rows: rows}}
}

// cutTraffic returns the excerpt in testdata.
func cutTraffic(t *testing.T) *traffic {
	t.Helper()
	return readTraffic(t, "cut", filepath.Join("..", "..", "testdata"), bitcoin, coinbase)
}

func fullTraffic(t *testing.T, folder string) *traffic {
	t.Helper()
	return readTraffic(t, "full", folder, bitcoin, coinbase)
}

// Recordings, by their path in a data folder.
const (
	bitcoin  = "binance-2024-08-08/spot_btcusdt_20240808.gz"
	coinbase = "exchange-frames/COINBASE.ws.28.0.gz"
)

// Namespaces of the nodes on which recordings are replayed, by kind. The history holds all of the traffic.
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

// TestReplay: recorded traffic that is replayed at the highest speed reaches clients of every transport and form completely and in order, stream
// by stream. A table ends with the last frame of every symbol. The same holds for clients that are cut repeatedly and resume, and while the node
// and the replay are killed and restarted.
func TestReplay(t *testing.T) {
	small := cutTraffic(t)
	for _, s := range []replayTest{
		{name: "streams", traffic: small},
		{name: "table", traffic: small, table: true, turn: 1}, // so that each kind is cut in one of the two
	} {
		s.program, s.clients, s.rough, s.cutEach = binary, len(feedKinds()), true, 2
		t.Run(s.name, s.run)
	}
}

// TestReplayFull does the same with full recordings and more clients, if SLUICE_DATA names their folder. With the race detector it would take
// half an hour and find nothing that TestReplay does not find. So the node and the clients, in a process of their own, run without it.
func TestReplayFull(t *testing.T) {
	folder := os.Getenv("SLUICE_DATA")
	if folder == "" {
		return
	}
	if raceDetector {
		runPlain(t, "^TestReplayFull$")
		return
	}
	for _, s := range []replayTest{
		{name: "streams", traffic: fullTraffic(t, folder)},
		{name: "table", traffic: readTraffic(t, "one", folder, coinbase), table: true},
	} {
		s.program, s.clients, s.rough, s.cutEach = plain, 70, true, 3
		t.Run(s.name, s.run)
	}
}

// checkReplay compares what the clients have received with the expectations, and with the node's positions of the channels.
func checkReplay(c *clientGroup, node *process, want map[string]*expectation) {
	c.t.Helper()
	heads := map[string]uint64{}
	for name := range want {
		heads[name] = node.head(name)
	}
	for _, client := range c.clients {
		if wrong := client.checker.check(heads); wrong != "" {
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
