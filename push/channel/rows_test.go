package channel_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// ground is a table that changes at random, and its expected content.
type ground struct {
	*rand.Rand
	log    *channel.Log
	offset uint64
	truth  map[string]uint64 // offset of each row
}

func newGround(seed uint64, kept int) *ground {
	log := channel.New(&channel.Policy{Mode: push.Table, History: push.History{Size: kept}}, push.Position{Epoch: "e"}, 0)
	return &ground{Rand: rand.New(rand.NewPCG(seed, 3)), log: log, truth: map[string]uint64{}}
}

func (g *ground) change(n int) {
	for range n {
		g.offset += uint64(1 + g.IntN(3))
		p := push.Publication{Offset: g.offset, Key: strconv.Itoa(g.IntN(30)), Data: []byte("12345")}
		switch n := g.IntN(500); {
		case n == 0:
			p.Op, p.Key, p.Data = push.Clear, "", nil
			clear(g.truth)
		case n < 200:
			p.Op, p.Data = push.Remove, nil
			delete(g.truth, p.Key)
		default:
			g.truth[p.Key] = g.offset
		}
		g.log.Append(p)
	}
}

func (g *ground) budget() channel.Budget {
	return channel.Budget{Entries: 1 + g.IntN(5), Bytes: 1 + g.IntN(40)}
}

// pages reads the rows page by page into a client's table while the log changes.
func (g *ground) pages(rows map[string]uint64) {
	for slot := 0; slot >= 0; {
		var page []channel.Delivery
		b := g.budget()
		page, slot = g.log.Rows(slot, b, nil)
		if len(page) > b.Entries {
			panic("a page is larger than its budget")
		}
		g.apply(rows, page)
		g.change(g.IntN(4))
	}
}

func (g *ground) apply(rows map[string]uint64, ds []channel.Delivery) {
	for _, d := range ds {
		switch d.Kind {
		case channel.Put:
			rows[d.Entry.Key] = d.Entry.Offset
		case channel.Gone:
			delete(rows, d.Entry.Key)
		default:
			panic(fmt.Sprintf("a delivery of kind %d", d.Kind))
		}
	}
}

// follow reads on from a position to the head, at first while the log changes. It returns false if that is impossible.
func (g *ground) follow(rows map[string]uint64, from uint64) bool {
	cursor, outcome := g.log.Subscribe(&push.Position{Epoch: "e", Offset: from}, nil)
	if outcome != channel.Resumed {
		return false
	}
	for busy := g.IntN(10); ; busy-- {
		ds, end, status := g.log.Read(cursor, nil, g.budget(), nil)
		for _, d := range ds {
			if d.Entry == nil {
				return false // evictions overtook it
			}
		}
		g.apply(rows, ds)
		if cursor = end; status == channel.UpToDate && busy <= 0 {
			return true
		}
		if busy > 0 {
			g.change(g.IntN(3))
		}
	}
}

// TestRowsAndChanges: the rows of all pages, with the changes since the first page, give the table, however it changes meanwhile.
func TestRowsAndChanges(t *testing.T) {
	whole, late := 0, 0
	for seed := range uint64(3000) {
		g := newGround(seed, 8)
		g.change(g.IntN(200))
		rows, head := map[string]uint64{}, g.log.Head()
		g.pages(rows)
		if !g.follow(rows, head) {
			late++
			continue
		}
		whole++
		if !maps.Equal(rows, g.truth) {
			t.Fatalf("seed %d: the client has\n%v, the table is\n%v", seed, rows, g.truth)
		}
	}
	if whole < 1000 || late < 100 {
		t.Errorf("%d readings went well and %d were overtaken: both have to happen", whole, late)
	}
}

// TestRowsHaveTeeth: without the changes, or with only the changes since the last page, the result differs from the table.
func TestRowsHaveTeeth(t *testing.T) {
	for name, joined := range map[string]func(g *ground, rows map[string]uint64){
		"no changes":              func(*ground, map[string]uint64) {},
		"changes from the end on": func(g *ground, rows map[string]uint64) { g.follow(rows, g.log.Head()) },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(100) {
				g := newGround(seed, 1000)
				g.change(100)
				rows := map[string]uint64{}
				g.pages(rows)
				if joined(g, rows); !maps.Equal(rows, g.truth) {
					return
				}
			}
			t.Error("nothing was missing in a hundred tables")
		})
	}
}

// TestRowsBounds: the largest size of a page, and its end.
func TestRowsBounds(t *testing.T) {
	log := channel.New(&channel.Policy{Mode: push.Table}, push.Position{Epoch: "e"}, 0)
	put := func(offset uint64, key, data string) {
		log.Append(push.Publication{Offset: offset, Key: key, Data: []byte(data)})
	}
	put(1, "a", "1")
	put(2, "b", "12345678")
	put(3, "c", "1")
	log.Append(push.Publication{Offset: 4, Key: "d", Data: []byte("1")})
	log.Append(push.Publication{Offset: 5, Key: "c", Op: push.Remove})
	for _, tt := range []struct {
		name   string
		slot   int
		budget channel.Budget
		want   string
		next   int
	}{
		{"all", 0, channel.Everything, "a1 b2 d4", -1},
		{"entries", 0, channel.Budget{Entries: 2, Bytes: 100}, "a1 b2", 2},
		{"just all", 0, channel.Budget{Entries: 3, Bytes: 100}, "a1 b2 d4", -1},
		{"bytes, of which the last may have more", 0, channel.Budget{Entries: 9, Bytes: 3}, "a1 b2", 2},
		{"nothing", 0, channel.Budget{}, "", 0},
		{"from a removed row on", 2, channel.Everything, "d4", -1},
		{"from the end on", 4, channel.Everything, "", -1},
		{"from far behind the end on", 1 << 30, channel.Everything, "", -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			page, next := log.Rows(tt.slot, tt.budget, nil)
			got := ""
			for _, d := range page {
				got += fmt.Sprintf(" %s%d", d.Entry.Key, d.Offset)
			}
			if got = got[min(1, len(got)):]; got != tt.want || next != tt.next {
				t.Errorf("got %q and goes on at %d, want %q and %d", got, next, tt.want, tt.next)
			}
		})
	}
}

// TestRowsOfDesertedTable: a table with few rows left is read in several calls, so that each call is short.
func TestRowsOfDesertedTable(t *testing.T) {
	log := channel.New(&channel.Policy{Mode: push.Table}, push.Position{Epoch: "e"}, 0)
	const rows = 50_000
	for i := range uint64(rows) {
		log.Append(push.Publication{Offset: i + 1, Key: strconv.FormatUint(i, 10)})
	}
	for i := range uint64(rows - 1) {
		log.Append(push.Publication{Offset: rows + i + 1, Key: strconv.FormatUint(i, 10), Op: push.Remove})
	}
	calls, found := 0, 0
	for slot := 0; slot >= 0; calls++ {
		var page []channel.Delivery
		page, slot = log.Rows(slot, channel.Everything, nil)
		found += len(page)
	}
	if found != 1 || calls < 2 || calls > 10 {
		t.Errorf("%d rows in %d calls", found, calls)
	}
}

// TestRowsOfOtherModes: a value is like a table of one row, and a stream has no rows.
func TestRowsOfOtherModes(t *testing.T) {
	for mode, want := range map[push.Mode]int{push.Value: 1, push.Stream: 0} {
		log := channel.New(&channel.Policy{Mode: mode}, push.Position{Epoch: "e"}, 0)
		log.Append(push.Publication{Offset: 1, Data: []byte("1")})
		if page, next := log.Rows(0, channel.Everything, nil); len(page) != want || next >= 0 {
			t.Errorf("%v: %d rows, goes on at %d", mode, len(page), next)
		}
	}
}

// TestManyRemovals: a client that is far behind starts fresh instead of getting far more removals than there are rows.
func TestManyRemovals(t *testing.T) {
	log := channel.New(&channel.Policy{Mode: push.Table, History: push.History{Size: 10_000}}, push.Position{Epoch: "e"}, 0)
	offset := uint64(0)
	put := func(op push.Op, key int) {
		offset++
		log.Append(push.Publication{Offset: offset, Key: strconv.Itoa(key), Op: op})
	}
	for i := range 400 {
		put(push.Set, i)
	}
	for i := range 300 { // 100 rows are left
		put(push.Remove, i)
	}
	for _, tt := range []struct {
		from uint64
		want channel.Outcome
	}{
		{400, channel.Fresh},   // 300 removals
		{471, channel.Fresh},   // 229
		{472, channel.Resumed}, // 100 and a few
		{offset, channel.Resumed},
	} {
		if _, got := log.Subscribe(&push.Position{Epoch: "e", Offset: tt.from}, nil); got != tt.want {
			t.Errorf("from %d: outcome %d, want %d", tt.from, got, tt.want)
		}
	}
	for i := range 300 { // they are there again
		put(push.Set, i)
	}
	if _, got := log.Subscribe(&push.Position{Epoch: "e", Offset: 400}, nil); got != channel.Resumed {
		t.Errorf("without removals: outcome %d", got)
	}
}
