package revocation_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/auth"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/revocation"
)

// openHub returns a hub with the namespace of revocations, which remembers few removals.
func openHub(t *testing.T, b broker.Broker) *hub.Hub {
	t.Helper()
	space := hub.Namespace{Namespace: broker.Namespace{Name: revocation.Namespace, Mode: push.Table, History: push.History{Size: 5}, Partitions: 1}}
	h, err := hub.New(t.Context(), b, []hub.Namespace{space}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func openBook(t *testing.T, h *hub.Hub, revoked func()) *revocation.Book {
	t.Helper()
	book, err := revocation.Open(t.Context(), h, revoked, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// TestBooksAgree: what one node revokes or takes back, another knows, and a third that starts later.
func TestBooksAgree(t *testing.T) {
	b := memory.New(nil)
	defer func() { _ = b.Close() }()
	var calls atomic.Int64
	one, two := openHub(t, b), openHub(t, b)
	defer func() { _, _ = one.Close(), two.Close() }()
	first, second := openBook(t, one, func() {}), openBook(t, two, func() { calls.Add(1) })
	defer first.Close()
	defer second.Close()
	long := strings.Repeat("x", 1024)
	entries := []revocation.Entry{
		{Kind: revocation.User, ID: "ann"},
		{Kind: revocation.Token, ID: "\x00 a control character"},
		{Kind: revocation.Token, ID: long},
		{Kind: revocation.Tokens, ID: "bob", Before: time.Now().Unix(), Until: time.Now().Add(time.Hour).Unix()},
	}
	for _, e := range entries {
		if err := first.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	testwait.True(t, "the other node knows all", func() bool { return second.Len() == len(entries) && calls.Load() > 0 })
	for _, token := range []auth.Token{{User: "ann"}, {User: "bob"}, {ID: long}, {ID: "\x00 a control character"}} {
		if !second.Revoked(&token, time.Now()) {
			t.Errorf("%.20v is not revoked", token)
		}
	}
	if err := second.Forget(t.Context(), revocation.User, "ann"); err != nil {
		t.Fatal(err)
	}
	testwait.True(t, "the first node knows what was taken back", func() bool { return !first.Revoked(&auth.Token{User: "ann"}, time.Now()) })
	three := openHub(t, b)
	defer func() { _ = three.Close() }()
	third := openBook(t, three, func() {})
	defer third.Close()
	if third.Len() != len(entries)-1 {
		t.Errorf("a node that starts later knows %d", third.Len())
	}
	if n := three.Stats().Sessions + len(three.Channels("*")) + three.Node().Clients + three.Node().Subs; n != 0 {
		t.Errorf("the node's own session shows up in its figures: %d", n)
	}
}

// TestAddRefuses: what is not a revocation is refused.
func TestAddRefuses(t *testing.T) {
	b := memory.New(nil)
	defer func() { _ = b.Close() }()
	h := openHub(t, b)
	defer func() { _ = h.Close() }()
	book := openBook(t, h, func() {})
	defer book.Close()
	for _, e := range []revocation.Entry{{}, {Kind: revocation.Tokens, ID: "ann"}, {ID: "x", Until: -1}, {ID: strings.Repeat("x", 1025)}} {
		if err := book.Add(t.Context(), e); !errors.Is(err, push.ErrBadRequest) {
			t.Errorf("%.40v: %v", e, err)
		}
	}
}

// TestTidy: rows whose time is over leave the table.
func TestTidy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(nil)
		defer func() { _ = b.Close() }()
		h := openHub(t, b)
		defer func() { _ = h.Close() }()
		book := openBook(t, h, func() {})
		defer book.Close()
		for i, id := range []string{"a", "b", "c"} {
			e := revocation.Entry{Kind: revocation.Token, ID: id, Until: time.Now().Add(time.Duration(i) * time.Hour).Unix()}
			if id == "a" {
				e.Until = 0
			}
			if err := book.Add(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(90 * time.Minute)
		synctest.Wait()
		if !book.Revoked(&auth.Token{ID: "a"}, time.Now()) || !book.Revoked(&auth.Token{ID: "c"}, time.Now()) || book.Len() != 2 {
			t.Errorf("%d are left", book.Len())
		}
		rows, err := h.History(t.Context(), revocation.Namespace+":revoked", hub.HistoryRequest{Limit: -1})
		if err != nil || len(rows.Entries) != 2 {
			t.Errorf("the table has %d rows, %v", len(rows.Entries), err)
		}
	})
}

// TestReset: when the table's past is gone, it is read again.
func TestReset(t *testing.T) {
	b := memory.New(nil)
	defer func() { _ = b.Close() }()
	h := openHub(t, b)
	defer func() { _ = h.Close() }()
	book := openBook(t, h, func() {})
	defer book.Close()
	const table = revocation.Namespace + ":revoked"
	if err := book.Add(t.Context(), revocation.Entry{Kind: revocation.User, ID: "ann"}); err != nil {
		t.Fatal(err)
	}
	testwait.True(t, "the row is there", func() bool { return book.Len() == 1 })
	if err := h.Unsubscribe(t.Context(), hub.Target{Client: "revocations of " + h.ID()}, table, push.UnsubscribeInsufficientState); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Publish(t.Context(), table, push.Publication{Op: push.Clear}, ""); err != nil {
		t.Fatal(err)
	}
	if err := book.Add(t.Context(), revocation.Entry{Kind: revocation.User, ID: "bob"}); err != nil {
		t.Fatal(err)
	}
	testwait.True(t, "the table is read again", func() bool {
		return !book.Revoked(&auth.Token{User: "ann"}, time.Now()) && book.Revoked(&auth.Token{User: "bob"}, time.Now())
	})
}
