package gateway_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/delta"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
)

// document is data in which little differs from one to the next.
func document(n int) string {
	return fmt.Sprintf(`{"symbol":"the same \u2028 in \"all\" of them","n":%d}`, n)
}

// fossil returns the Fossil delta from one document to another.
func fossil(from, to int) string {
	return string(new(delta.Encoder).AppendFossil(nil, []byte(document(from)), []byte(document(to))))
}

// TestDelta: what clients are told that take differences, and what they are sent.
func TestDelta(t *testing.T) {
	for _, tt := range []struct {
		name, ask string
		quote     func(string) string
		diff      string
		answered  string
	}{
		{"fossil", `"delta":"fossil"`, strconv.Quote, strconv.Quote(fossil(1, 2)), `,"delta":true`},
		{"merge", `"delta":"merge"`, func(s string) string { return s }, `{"n":2}`, `,"delta":true`},
		{"a form of others", `"delta":"xdelta3"`, func(s string) string { return s }, "", ""},
		{"none", `"delta":""`, func(s string) string { return s }, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const name = "a"
			p := newPlace(t, nil)
			p.publish(name, document(0))
			r := strings.NewReplacer("EPOCH", p.epoch(name), "NAME", name, "ASK", tt.ask)
			c := p.client()
			c.ask(
				r.Replace(`{"id":2,"subscribe":{"channel":"NAME","recover":true,"epoch":"EPOCH",ASK}}`),
				r.Replace(`{"id":2,"subscribe":{"recoverable":true,"epoch":"EPOCH","publications":[{"data":`+tt.quote(document(0))+`,"offset":1}],`+
					`"recovered":true,"positioned":true,"was_recovering":true`+tt.answered+`}}`),
			)
			p.publish(name, document(2)) // the first may be a difference to what the answer had
			if got := c.publication(); got.Offset != 2 || len(got.Data) == 0 {
				t.Errorf("got %+v", got)
			}
			p.publish(name, document(1))
			c.publication()
			at := p.publish(name, document(2)).Offset
			want := fmt.Sprintf(`{"push":{"channel":%q,"pub":{"data":%s,"offset":%d`, name, tt.quote(document(2)), at)
			if tt.diff != "" {
				want = fmt.Sprintf(`{"push":{"channel":%q,"pub":{"data":%s,"offset":%d,"delta":true`, name, tt.diff, at)
			}
			c.want(want + `}}}`)
			c.ask(
				r.Replace(`{"id":3,"history":{"channel":"NAME","limit":1}}`),
				r.Replace(`{"id":3,"history":{"publications":[{"data":`+document(0)+`,"offset":1}],"epoch":"EPOCH","offset":4}}`),
			)
		})
	}
}

// publication returns the next message, which has to be a publication.
func (c *wsClient) publication() push.Publication {
	c.t.Helper()
	var r protocol.Reply
	line := c.receive()
	must(c.t, json.DecodeReply([]byte(line), &r))
	if r.Push.Kind != protocol.PushPublication {
		c.t.Fatalf("received %s instead of a publication", line)
	}
	return r.Push.Publication
}

// TestDeltaOfTables: our own clients keep what they have by key, the SDKs by subscription, so these get all in full.
func TestDeltaOfTables(t *testing.T) {
	p := newPlace(t, nil)
	row := func(key string, n int) { p.put("table:t", push.Publication{Key: key, Data: []byte(document(n))}) }
	row("x", 0)
	row("y", 1)
	r := strings.NewReplacer("EPOCH", p.epoch("table:t"), "ROWS", `[{"data":`+document(0)+`,"key":"x"},{"data":`+document(1)+`,"offset":2,"key":"y"}]`)
	merge, fossil := p.client(), p.client()
	merge.ask(
		`{"id":2,"subscribe":{"channel":"table:t","delta":"merge"}}`,
		r.Replace(`{"id":2,"subscribe":{"recoverable":true,"epoch":"EPOCH","publications":ROWS,"positioned":true,"delta":true}}`),
	)
	fossil.ask(
		`{"id":2,"subscribe":{"channel":"table:t","delta":"fossil"}}`,
		r.Replace(`{"id":2,"subscribe":{"recoverable":true,"epoch":"EPOCH","publications":ROWS,"positioned":true}}`),
	)
	for i, key := range []string{"x", "y"} {
		row(key, 7+i)
		merge.want(fmt.Sprintf(`{"push":{"channel":"table:t","pub":{"data":{"n":%d},"offset":%d,"key":"%s","delta":true}}}`, 7+i, 3+i, key))
		fossil.want(fmt.Sprintf(`{"push":{"channel":"table:t","pub":{"data":%s,"offset":%d,"key":"%s"}}}`, document(7+i), 3+i, key))
	}
	p.put("table:t", push.Publication{Key: "x", Op: push.Remove})
	merge.want(`{"push":{"channel":"table:t","pub":{"data":null,"offset":5,"key":"x","removed":true}}}`)
	row("x", 9)
	merge.want(fmt.Sprintf(`{"push":{"channel":"table:t","pub":{"data":%s,"offset":6,"key":"x"}}}`, document(9)))
}

// TestDeltaStream: the same for a one-way client.
func TestDeltaStream(t *testing.T) {
	p := newPlace(t, nil)
	s := p.stream(`{"subs":{"a":{"delta":"fossil"}}}`, "")
	if first := s.next(); !strings.Contains(first.data, `"delta":true`) {
		t.Errorf("the connection is told of as %s", first.data)
	}
	for n, want := range []string{
		`{"data":` + strconv.Quote(document(1)) + `,"offset":1}`,
		`{"data":` + strconv.Quote(fossil(1, 2)) + `,"offset":2,"delta":true}`,
	} {
		p.publish("a", document(n+1))
		if got := s.next().data; got != `{"channel":"a","pub":`+want+`}` {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
