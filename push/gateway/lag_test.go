package gateway_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
)

// thinConn is a connection of which only so many bytes a second are read.
type thinConn struct {
	net.Conn
	rate float64
}

func (c *thinConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	pass(time.Duration(float64(n) / c.rate * float64(time.Second)))
	return n, err
}

// lagRow is a row of a table that is published to, and what a client that is slow has of it.
type lagRow struct {
	versions []time.Time // when each was published, by number
	held     int         // the newest that the client has
	received int
	wrong    time.Duration // for how long the client did not have the row as it was, at most
}

// lagTable is a table in which some rows change far more often than others. Publishing and the client are goroutines of their own.
type lagTable struct {
	pad string

	mu   sync.Mutex // guards rows
	rows []lagRow
}

// publish publishes so many times a second, in bursts, until the context ends.
func (l *lagTable) publish(ctx context.Context, p *place, name string, rate int) {
	const bursts = 100 // a second
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.1, 1, uint64(len(l.rows)-1))
	tick := time.NewTicker(time.Second / bursts)
	defer tick.Stop()
	for ctx.Err() == nil {
		for range rate / bursts {
			i := zipf.Uint64()
			l.mu.Lock()
			row := &l.rows[i]
			row.versions = append(row.versions, time.Now())
			data := fmt.Sprintf(`[%d,%q]`, len(row.versions), l.pad)
			l.mu.Unlock()
			_, err := p.hub.Publish(ctx, name, push.Publication{Key: strconv.FormatUint(i, 10), Data: []byte(data)}, "")
			if err != nil && ctx.Err() == nil {
				p.t.Error(err)
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// take notes what the client received.
func (l *lagTable) take(t *testing.T, p *push.Publication) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var i, version int
	if _, err := fmt.Sscanf(p.Key+string(p.Data), "%d[%d,", &i, &version); err != nil {
		t.Fatalf("%s: %v", p.Data, err)
	}
	row := &l.rows[i]
	if version < row.held {
		t.Fatalf("row %d went back from version %d to %d", i, row.held, version)
	}
	row.received++
	if row.held < version {
		row.wrong = max(row.wrong, time.Since(row.versions[row.held]))
		row.held = version
	}
}

// TestSlowReaderLag: a client that reads 50 KB of the 2 MB a second that are published to a table is never more than three seconds behind,
// and of the row that changes most no further than of the rows that change least. The pipe between them holds nothing by itself, so this
// is what the node lets wait.
func TestSlowReaderLag(t *testing.T) {
	const (
		rows, bytes = 200, 200
		published   = 2_000_000 / bytes // a second
		read        = 50_000            // bytes a second
		most        = 3 * time.Second
		lasts       = 15 * time.Second
	)
	inFakeTime(t, &gateway.Options{PingInterval: -1}, func(t *testing.T, p *place) {
		l := &lagTable{rows: make([]lagRow, rows), pad: strings.Repeat("x", bytes-20)}
		dial := p.dial
		p.dial = func(ctx context.Context) (net.Conn, error) {
			conn, err := dial(ctx)
			return &thinConn{conn, read}, err
		}
		c := p.subscriber("table:t").forever()
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		var publishing sync.WaitGroup
		publishing.Go(func() { l.publish(ctx, p, "table:t", published) })
		for ctx.Err() == nil {
			var r protocol.Reply
			must(t, json.DecodeReply([]byte(c.receive()), &r))
			if r.Push.Kind == protocol.PushPublication {
				l.take(t, &r.Push.Publication)
			}
		}
		testwait.Return(t, publishing.Wait)
		l.check(t, most)
	})
}

// check compares how far behind the client was with what is allowed, and the row that changes most with the tenth of them that change least:
// one of these has come too seldom to say anything.
func (l *lagTable) check(t *testing.T, most time.Duration) {
	t.Helper()
	slices.SortFunc(l.rows, func(a, b lagRow) int { return cmp.Compare(len(a.versions), len(b.versions)) })
	for i := range l.rows {
		row := &l.rows[i]
		if row.wrong > most || row.received == 0 {
			t.Errorf("a row was %v behind at most, want at most %v; %d of %d versions came", row.wrong, most, row.received, len(row.versions))
		}
	}
	hottest := &l.rows[len(l.rows)-1]
	coldest := slices.MaxFunc(l.rows[:len(l.rows)/10], func(a, b lagRow) int { return cmp.Compare(a.wrong, b.wrong) })
	t.Logf("changes most: %d versions, %d came, %v behind at most; changes least: %d, %d, %v", len(hottest.versions), hottest.received,
		hottest.wrong, len(coldest.versions), coldest.received, coldest.wrong)
	if hottest.wrong > coldest.wrong {
		t.Errorf("of the row that changes most the client was %v behind, of those that change least %v", hottest.wrong, coldest.wrong)
	}
}
