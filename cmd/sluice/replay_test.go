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

// cutTape is the cut in testdata.
func cutTape(t *testing.T) *tape {
	t.Helper()
	return readTape(t, "cut", filepath.Join("..", "..", "testdata"), bitcoin, coinbase)
}

func fullTape(t *testing.T, folder string) *tape {
	t.Helper()
	return readTape(t, "full", folder, bitcoin, coinbase)
}

// Recordings, by their place in a folder of them.
const (
	bitcoin  = "binance-2024-08-08/spot_btcusdt_20240808.gz"
	coinbase = "exchange-frames/COINBASE.ws.28.0.gz"
)

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

// TestReplay: recorded traffic replayed at the highest speed to WebSocket and SSE clients arrives whole and in order, stream by stream,
// and a table ends with the last frame of every symbol; also at clients that are cut over and over and resume, and while the node
// and the replay are killed and started again.
func TestReplay(t *testing.T) {
	small := cutTape(t)
	for _, s := range []showing{
		{name: "streams", tape: small, websockets: 8, sse: 4, rough: true},
		{name: "table", tape: small, table: true, websockets: 8, sse: 4, rough: true},
	} {
		s.program = binary
		t.Run(s.name, s.run)
	}
}

// TestReplayFull does the same with full recordings and more clients, where SLUICE_DATA says that there are some. The race detector
// would take half an hour for it, and see nothing that it does not see in TestReplay: so it stays out of the node, and with this
// test in a process of its own, out of the clients.
func TestReplayFull(t *testing.T) {
	folder := os.Getenv("SLUICE_DATA")
	if folder == "" {
		return
	}
	if raceDetector {
		runPlain(t, "^TestReplayFull$")
		return
	}
	for _, s := range []showing{
		{name: "streams", tape: fullTape(t, folder), websockets: 50, sse: 20, rough: true},
		{name: "table", tape: readTape(t, "one", folder, coinbase), table: true, websockets: 50, sse: 20, rough: true},
	} {
		s.program = plain
		t.Run(s.name, s.run)
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
