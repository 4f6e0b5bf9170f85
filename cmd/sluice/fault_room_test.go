package main_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	nats "github.com/nats-io/nats.go"

	"github.com/sluice-push/sluice/internal/testwait"
)

// roomConfig configures a node that keeps rows until its store is full.
const roomConfig = `
broker: {nats: {max_store: %s}}
namespaces:
  - {name: rows, mode: table}
  - {name: ticks, mode: stream, history: {size: 200000, age: 1h}}
`

// rowSize is the size of the rows that fill the store.
const rowSize = 32 << 10

// fill publishes rows until the broker accepts no more. It returns the accepted rows and the key of the refused one. The refusal must be
// temporary. Before that, the outcome of a publication may be unknown, which happens when the disk is full.
func (p *process) fill() (rows map[string]string, refused string) {
	p.t.Helper()
	rows = map[string]string{}
	for i := 0; i < 10_000; i++ {
		key := fmt.Sprintf("row%d", i)
		err := p.row(key)
		if isUnsure(err) {
			testwait.True(p.t, "it is refused", func() bool {
				err = p.row(key)
				return !isUnsure(err)
			})
		}
		switch {
		case isBusy(err):
			return rows, key
		case err != nil:
			p.t.Fatalf("after %d rows: %v", i, err)
		}
		rows[key] = rowData(key)
	}
	p.t.Fatal("the store is never full")
	return nil, ""
}

// isUnsure reports whether the outcome of a publication is unknown to the API.
func isUnsure(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.Code == 100
}

// row publishes a large row.
func (p *process) row(key string) error {
	return p.try("publish", fmt.Sprintf(`{"channel":"rows:all","key":%q,"data":%s}`, key, rowData(key)))
}

func rowData(key string) string { return `"` + key + strings.Repeat(" ", rowSize) + `"` }

// checkRows fails the test if the table lacks one of the rows.
func checkRows(t *testing.T, node *process, rows map[string]string) {
	t.Helper()
	startClients(t, newFeedClient("the reader", node.public, overWebSocket, map[string]*expectation{"rows:all": {rows: rows}})).awaitComplete()
}

// TestMaxStore: when the embedded broker's store is full, publications are refused and nothing else happens. With a larger store, the node
// continues with every acknowledged publication.
func TestMaxStore(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	node := startNodeWith(t, fmt.Sprintf(roomConfig, "4MiB"), "--data", folder)
	rows, _ := node.fill()
	if len(rows) < 10 {
		t.Errorf("it took only %d rows", len(rows))
	}
	checkRows(t, node, rows)
	node.awaitReady()
	if log := node.stderr.String(); !strings.Contains(log, "publication refused by the broker") || !strings.Contains(log, "no space left") {
		t.Error("the log does not say why the broker refuses")
	}
	if code := node.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	node = startNodeWith(t, fmt.Sprintf(roomConfig, "16MiB"), "--data", folder)
	if err := node.row("more"); err != nil {
		t.Error(err)
	}
	rows["more"] = rowData("more")
	checkRows(t, node, rows)
}

// TestPlainPublisher: messages of a NATS client without Sluice arrive as documented, whatever they contain, and no Sluice client is disturbed.
func TestPlainPublisher(t *testing.T) {
	address := freePort(t)
	node := startNodeWith(t, fmt.Sprintf(`
broker: {nats: {listen: %q}}
namespaces:
  - {name: ticks, mode: stream, history: {size: 200000, age: 1h}}
  - {name: rows, mode: table}
`, address))
	tests := []struct{ data, want string }{ // if want is empty, the message is dropped
		{`{"a": 1, "b": [1, 2]}`, `{"a": 1, "b": [1, 2]}`},
		{"[1,\n 2]", `[1,2]`},
		{`7`, `7`},
		{`plain text`, `"plain text"`},
		{"two\nlines, \"quoted\"\t\x00 é", `"two\nlines, \"quoted\"\t\u0000 é"`},
		{"\xff\xfe\x00", ""},
		{"", `""`},
		{`{"broken":`, `"{\"broken\":"`},
		{`{} {}`, `"{} {}"`},
		{"{\"a\":\"\xff\"}", ""},
		{`"the last"`, `"the last"`},
	}
	var want, got []string
	for _, tt := range tests {
		if tt.want != "" {
			want = append(want, tt.want)
		}
	}
	client := newFeedClient("the client", node.public, overWebSocket, map[string]*expectation{
		"ticks:a": {count: len(want)}, "rows:all": {rows: map[string]string{"a.b": `"text"`}},
	})
	client.checker.accounts["ticks:a"].taken = func(data []byte) { got = append(got, string(data)) }
	watching := startClients(t, client)
	conn, err := nats.Connect("nats://" + address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	send := func(subject, data string) {
		t.Helper()
		answer, err := conn.Request(subject, []byte(data), faultTime)
		if err != nil || !strings.Contains(string(answer.Data), `"seq"`) {
			t.Errorf("%q is not acknowledged: %v %v", data, answer, err)
		}
	}
	send("sluice.rows.t.rows:all.a%2Eb", "text")
	send("sluice.rows.t.rows:all", "no row, and so no publication")
	for _, tt := range tests {
		send("sluice.ticks.s.ticks:a", tt.data)
	}
	watching.awaitComplete()
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if client.cuts > 0 {
		t.Error("the client was cut")
	}
	testwait.True(t, "the node has said of three messages that they were left out", func() bool {
		return strings.Count(node.stderr.String(), "message skipped: not a publication") == 3
	})
	result := node.api("history", map[string]any{"channel": "ticks:a", "limit": 100})
	if pubs, ok := result["publications"].([]any); !ok || len(pubs) != len(want) {
		t.Errorf("the history has %d publications, want %d", len(pubs), len(want))
	}
}
