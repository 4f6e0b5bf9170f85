package hub_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
)

// mirror is a client's copy of a table, made as a map subscription makes it.
type mirror struct {
	t       *testing.T
	session *hub.Session
	carrier *carrier
	channel string
	budget  channel.Budget // of a page, and of the answer

	mu    sync.Mutex
	rows  map[string]string
	begun int // times it began to read the rows
}

func newMirror(t *testing.T, h *hub.Hub, name string) *mirror {
	m := &mirror{t: t, channel: "table:x", budget: channel.Budget{Entries: 20, Bytes: 10_000}, rows: map[string]string{}}
	m.carrier = newCarrier(t, open, false)
	m.carrier.sink = func(f frame) {
		m.mu.Lock()
		defer m.mu.Unlock()
		switch f.kind {
		case "put":
			m.rows[f.key] = f.data
		case "gone":
			delete(m.rows, f.key)
		}
	}
	m.session = m.carrier.connect(h, client(name))
	return m
}

// read reads all rows and returns the position to subscribe from.
func (m *mirror) read() (push.Position, error) {
	m.begun++
	m.mu.Lock()
	clear(m.rows)
	m.mu.Unlock()
	r := hub.RowsRequest{Channel: m.channel, Budget: m.budget}
	for {
		page, err := m.session.Rows(testwait.Context(m.t), r)
		if err != nil {
			return push.Position{}, err
		}
		m.apply(page.Deliveries)
		if page.Cursor == "" {
			return page.Position, nil
		}
		r.Since, r.Cursor = &page.Position, page.Cursor
	}
}

func (m *mirror) apply(ds []channel.Delivery) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range ds {
		if d.Kind == channel.Gone {
			delete(m.rows, d.Entry.Key)
		} else {
			m.rows[d.Entry.Key] = string(d.Entry.Data)
		}
	}
}

// join subscribes from a position.
func (m *mirror) join(at push.Position, joins bool) (out hub.Subscribed, err error) {
	r := hub.SubscribeRequest{Channel: m.channel, Since: &at, Table: true, Joins: joins, Budget: m.budget}
	err = m.session.Subscribe(testwait.Context(m.t), r, func(s hub.Subscribed) error {
		out = s
		m.apply(s.Deliveries)
		return nil
	})
	return out, err
}

// begin reads the rows and subscribes, as often as it takes.
func (m *mirror) begin() {
	m.t.Helper()
	for {
		at, err := m.read()
		if err == nil {
			_, err = m.join(at, true)
		}
		switch {
		case errors.Is(err, push.ErrUnrecoverablePosition):
		case err != nil:
			m.t.Errorf("%s: %v", m.channel, err)
			return
		default:
			return
		}
	}
}

func (m *mirror) is(want map[string]string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Equal(m.rows, want)
}

// TestRows: clients that read the rows page by page and then subscribe have the table, while rows come, change and go.
func TestRows(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 200}), nil)
	ctx := testwait.Context(t)
	truth := map[string]string{}
	rng := rand.New(rand.NewPCG(1, 2))
	change := func(n int) {
		for i := range n {
			p := push.Publication{Key: fmt.Sprint(rng.IntN(500)), Data: fmt.Append(nil, i)}
			if rng.IntN(3) == 0 {
				p.Op, p.Data = push.Remove, nil
				delete(truth, p.Key)
			} else {
				truth[p.Key] = string(p.Data)
			}
			publish(t, h, "table:x", p)
		}
	}
	change(1000)
	var publisher, readers sync.WaitGroup
	done := make(chan struct{})
	publisher.Go(func() {
		for !isClosed(done) && ctx.Err() == nil {
			change(100)
		}
	})
	var mirrors []*mirror
	for i := range 8 {
		m := newMirror(t, h, fmt.Sprint(i))
		mirrors = append(mirrors, m)
		readers.Go(func() {
			for range 5 {
				m.begin()
				m.session.Unsubscribe("table:x")
			}
			m.begin()
		})
	}
	testwait.Return(t, readers.Wait)
	close(done)
	testwait.Return(t, publisher.Wait)
	for i, m := range mirrors {
		testwait.True(t, fmt.Sprintf("client %d has the table", i), func() bool { return m.is(truth) })
	}
	n := countsOf(t, h, "table")
	if n.New != 48 || n.Recovered != 0 || n.Fresh() != 0 {
		t.Errorf("%d are new, %d recovered, %d fresh; a table that is read and joined is a new subscription", n.New, n.Recovered, n.Fresh())
	}
}

// TestRowsCutOff: a client that was cut off gets only what has changed, or is told that it has to begin again.
func TestRowsCutOff(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 3}), nil)
	put := func(key, data string) push.Position {
		return publish(t, h, "table:x", push.Publication{Key: key, Data: []byte(data)})
	}
	remove := func(key string) push.Position {
		return publish(t, h, "table:x", push.Publication{Key: key, Op: push.Remove})
	}
	for i := range 10 {
		put(fmt.Sprint(i), "old")
	}
	m := newMirror(t, h, "a")
	m.begin()
	at := put("1", "new")
	want := map[string]string{"1": "new"}
	for i := range 10 {
		if i != 1 {
			want[fmt.Sprint(i)] = "old"
		}
	}
	testwait.True(t, "it has the newest", func() bool { return m.is(want) })
	m.session.Unsubscribe("table:x")
	put("2", "new")
	last := remove("3")
	got, err := m.join(at, false)
	must(t, err)
	if !got.Recovered || got.Position != last || len(got.Deliveries) != 2 {
		t.Errorf("coming back: %+v", got)
	}
	m.session.Unsubscribe("table:x")
	for i := 4; i < 8; i++ {
		remove(fmt.Sprint(i))
	}
	for _, joins := range []bool{false, true} {
		if _, err := m.join(at, joins); !errors.Is(err, push.ErrUnrecoverablePosition) {
			t.Errorf("below the floor: %v", err)
		}
	}
	foreign := push.Position{Epoch: "another", Offset: last.Offset}
	if _, err := m.join(foreign, false); !errors.Is(err, push.ErrUnrecoverablePosition) {
		t.Errorf("in another life: %v", err)
	}
	if _, err := m.join(push.Position{}, true); !errors.Is(err, push.ErrUnrecoverablePosition) {
		t.Errorf("without a position: %v", err)
	}
	if m.session.Subscribes("table:x") || h.Holds("table:x") != 0 {
		t.Error("a refused subscription is still there")
	}
	if n := countsOf(t, h, "table"); n.New != 1 || n.Recovered != 1 || n.FreshFloor != 1 || n.FreshEpoch != 1 {
		t.Errorf("%+v", n)
	}
	m.begin()
	if !m.is(map[string]string{"0": "old", "1": "new", "2": "new", "8": "old", "9": "old"}) {
		t.Errorf("it has %v", m.rows)
	}
}

// TestRowsOverflow: what does not fit the answer follows, and until it has, the position is the one the client came with.
func TestRowsOverflow(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{}), nil)
	m := newMirror(t, h, "a")
	m.budget.Entries = 5
	at, err := m.read()
	must(t, err)
	want := map[string]string{}
	for i := range 50 {
		publish(t, h, "table:x", push.Publication{Key: fmt.Sprint(i), Data: []byte("1")})
		want[fmt.Sprint(i)] = "1"
	}
	got, err := m.join(at, true)
	must(t, err)
	if got.Position != at || len(got.Deliveries) != 5 || got.Deliveries[0].Offset != 0 {
		t.Errorf("answered with %d rows, position %v, came with %v", len(got.Deliveries), got.Position, at)
	}
	testwait.True(t, "the rest follows", func() bool { return m.is(want) })
}

// TestRowsCursors: if a cursor is not valid for the table as it is now, the error makes the client begin again.
func TestRowsCursors(t *testing.T) {
	r := newRig(t, nil)
	h, other := newHub(t, r, spaces(push.History{}), nil), newHub(t, r, spaces(push.History{}), nil)
	for i := range 10 {
		publish(t, h, "table:x", push.Publication{Key: fmt.Sprint(i), Data: []byte("1")})
		publish(t, h, "table:y", push.Publication{Key: fmt.Sprint(i), Data: []byte("1")})
	}
	s := newCarrier(t, open, false).connect(h, client("a"))
	few := channel.Budget{Entries: 3, Bytes: 1000}
	first := func(s *hub.Session, name string) hub.Rows {
		page, err := s.Rows(testwait.Context(t), hub.RowsRequest{Channel: name, Budget: few})
		must(t, err)
		if len(page.Deliveries) != 3 || page.Cursor == "" || page.Position.Offset == 0 {
			t.Fatalf("the first page of %s: %+v", name, page)
		}
		return page
	}
	page := first(s, "table:x")
	ask := func(at push.Position, cursor string) error {
		_, err := s.Rows(testwait.Context(t), hub.RowsRequest{Channel: "table:x", Since: &at, Cursor: cursor, Budget: few})
		return err
	}
	must(t, ask(page.Position, page.Cursor))
	begin := page.Cursor[:strings.LastIndexByte(page.Cursor, '.')+1]
	must(t, ask(page.Position, begin+"1000000000"))
	elsewhere := first(newCarrier(t, open, false).connect(other, client("b")), "table:x")
	offset := func(n uint64) push.Position { return push.Position{Epoch: page.Position.Epoch, Offset: n} }
	for name, tt := range map[string]struct {
		at     push.Position
		cursor string
	}{
		"another channel":   {page.Position, first(s, "table:y").Cursor},
		"another hub":       {page.Position, elsewhere.Cursor},
		"none":              {page.Position, ""},
		"not a cursor":      {page.Position, "x"},
		"not a number":      {page.Position, begin + "x"},
		"less than nothing": {page.Position, begin + "-1"},
		"written otherwise": {page.Position, begin + "03"},
		"a huge number":     {page.Position, begin + "99999999999999999999"},
		"above 32 bits":     {page.Position, begin + "4294967299"},
		"more than that":    {page.Position, page.Cursor + ".3"},
		"another life":      {push.Position{Epoch: "another", Offset: page.Position.Offset}, page.Cursor},
		"no life":           {push.Position{Offset: page.Position.Offset}, page.Cursor},
		"the future":        {offset(page.Position.Offset + 1000), page.Cursor},
		"beyond":            {offset(1<<64 - 1), page.Cursor},
	} {
		if err := ask(tt.at, tt.cursor); !errors.Is(err, push.ErrUnrecoverablePosition) {
			t.Errorf("%s: %v", name, err)
		}
	}
	publish(t, h, "table:x", push.Publication{Op: push.Clear})
	if err := ask(page.Position, page.Cursor); !errors.Is(err, push.ErrUnrecoverablePosition) {
		t.Errorf("after a clear: %v", err)
	}
}

// TestRowsAfterReload: a log that was loaded again has other slots, so its pages are read from the beginning.
func TestRowsAfterReload(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{}), &hub.Options{Linger: time.Minute})
	for i := range 10 {
		publish(t, h, "table:x", push.Publication{Key: fmt.Sprint(i), Data: []byte("1")})
	}
	s := newCarrier(t, open, false).connect(h, client("a"))
	r := hub.RowsRequest{Channel: "table:x", Budget: channel.Budget{Entries: 3, Bytes: 1000}}
	page, err := s.Rows(testwait.Context(t), r)
	must(t, err)
	r.Since, r.Cursor = &page.Position, page.Cursor
	h.Sweep(time.Now().Add(time.Hour)) // the channel is unused
	if h.Holds("table:x") != -1 {
		t.Fatal("the channel is still there")
	}
	if _, err := s.Rows(testwait.Context(t), r); !errors.Is(err, push.ErrUnrecoverablePosition) {
		t.Errorf("got %v", err)
	}
}

func TestRowsRefused(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{}), &hub.Options{SubscriptionsPerSession: 1})
	s := newCarrier(t, open, false).connect(h, client("a"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "table:mine"})
	full := newCarrier(t, open, false).connect(h, client("b"))
	closed := newCarrier(t, open, false).connect(h, client("c"))
	subscribe(t, full, hub.SubscribeRequest{Channel: "table:other"})
	closed.Close()
	for _, tt := range []struct {
		name, channel string
		session       *hub.Session
		want          error
	}{
		{"a stream", "stream:x", s, push.ErrBadRequest},
		{"a value", "value:x", s, push.ErrBadRequest},
		{"no namespace", "nothing:x", s, push.ErrUnknownChannel},
		{"no name", "", s, push.ErrBadRequest},
		{"subscribed already", "table:mine", s, push.ErrAlreadySubscribed},
		{"one too many", "table:x", full, push.ErrLimitExceeded},
		{"after Close", "table:x", closed, push.ErrInternal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			budget := channel.Budget{Entries: 3, Bytes: 1000}
			if _, err := tt.session.Rows(testwait.Context(t), hub.RowsRequest{Channel: tt.channel, Budget: budget}); !errors.Is(err, tt.want) {
				t.Errorf("rows: %v, want %v", err, tt.want)
			}
			r := hub.SubscribeRequest{Channel: tt.channel, Since: &push.Position{Epoch: "e"}, Table: true}
			if err := tt.session.Subscribe(testwait.Context(t), r, unwanted(t)); !errors.Is(err, tt.want) {
				t.Errorf("subscribe: %v, want %v", err, tt.want)
			}
		})
	}
}
