package main

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
)

// given returns a table whose client has a snapshot: two bids and an ask of update 10, at offset 3.
func given(t *testing.T) *table {
	t.Helper()
	tab := newTable(&rowHistory{start: 10, byKey: map[string][]rowChange{}})
	tab.subscribed(false, push.Position{Epoch: "e", Offset: 3})
	for _, c := range []change{newChange("b", "99", "1", 10), newChange("b", "98", "2", 10), newChange("a", "101", "3", 10)} {
		feedRow(t, tab, 0, c)
	}
	return tab
}

func feedRow(t *testing.T, tab *table, offset uint64, c change) {
	t.Helper()
	if err := tab.add(publication(offset, c), time.Now()); err != nil {
		t.Fatal(err)
	}
}

func publication(offset uint64, c change) *push.Publication {
	p := &push.Publication{Offset: offset, Key: c.key, Data: []byte(c.data)}
	if c.data == "" {
		p.Op = push.Remove
	}
	return p
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestTableReaches: a table reaches its goal only when all rows are right. Until then check names the differences.
func TestTableReaches(t *testing.T) {
	tab := given(t)
	goal := bookOf("b 99 1", "b 97 5", "a 101 4")
	for key := range goal {
		goal[key] = strings.Replace(goal[key], `"u":1}`, `"u":11}`, 1)
	}
	goal["b99"] = tab.rows["b99"]
	best := quote{"99", "1", "101", "4"}
	reached := tab.setGoal(goal)
	steps := []struct {
		c    change
		want string
	}{
		{newChange("b", "97", "5", 11), "of 3 rows 0 are missing, 1 differ, 1 are too many; the best are 99 × 1 bid, 101 × 3 asked"},
		{newChange("a", "101", "4", 11), "of 3 rows 0 are missing, 0 differ, 1 are too many"},
		{newChange("b", "98", "0", 11), ""},
	}
	for i, s := range steps {
		if isClosed(reached) {
			t.Fatalf("reached after %d of %d changes", i, len(steps))
		}
		feedRow(t, tab, uint64(4+i), s.c)
		if got := tab.check(best); !strings.HasPrefix(got, s.want) || (got == "") != (s.want == "") {
			t.Errorf("after %d changes %q, want %q", i+1, got, s.want)
		}
	}
	if !isClosed(reached) {
		t.Error("not reached")
	}
	if !isClosed(tab.setGoal(goal)) {
		t.Error("a goal that is reached when it is set is not")
	}
	best.bids = "2"
	if tab.check(best) == "" {
		t.Error("a wrong best quantity is not seen")
	}
	if tab.newChanges != 3 || tab.received != 6 {
		t.Errorf("%d of %d publications were new, want 3 of 6", tab.newChanges, tab.received)
	}
}

// TestTableRefuses: publications out of order are errors.
func TestTableRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		p    *push.Publication
		want string
	}{
		"an offset again": {publication(3, newChange("b", "99", "2", 11)), "offset 3 came after 3"},
		"a row goes back": {publication(0, newChange("b", "99", "2", 9)), "went back"},
		"no level":        {&push.Publication{Offset: 4, Key: "b99", Data: []byte("[]")}, "row b99"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := given(t).add(tt.p, time.Now()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestTableAfresh: a table is emptied by an answer without resumption and by a clear, but not by a resumption.
func TestTableAfresh(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(tab *table) error
		want int
	}{
		"fresh":   {func(tab *table) error { tab.subscribed(false, push.Position{Epoch: "f"}); return nil }, 0},
		"resumed": {func(tab *table) error { tab.subscribed(true, push.Position{Epoch: "e", Offset: 5}); return nil }, 3},
		"cleared": {func(tab *table) error { return tab.add(&push.Publication{Offset: 4, Op: push.Clear}, time.Now()) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			tab := given(t)
			if err := tt.do(tab); err != nil || len(tab.rows) != tt.want {
				t.Errorf("%d rows are left (%v), want %d", len(tab.rows), err, tt.want)
			}
			if reached := isClosed(tab.setGoal(book{})); reached != (tt.want == 0) {
				t.Errorf("an empty goal is reached: %t", reached)
			}
		})
	}
}

// TestStalestAfresh: after a new snapshot, a row counts as right until it changes.
func TestStalestAfresh(t *testing.T) {
	for name, tt := range map[string]struct {
		later change
		want  int // seconds
	}{
		"nothing changed": {newChange("b", "99", "1", 10), 0},
		"a row changed":   {newChange("b", "99", "2", 11), 5},
		"a row is gone":   {newChange("b", "99", "0", 11), 0}, // having no row is right
	} {
		t.Run(name, func(t *testing.T) {
			tab, began := given(t), time.Now()
			if tt.later.data != tab.rows["b99"] {
				tab.history.record([]change{tt.later}, 11, began)
			}
			tab.subscribed(false, push.Position{Epoch: "e", Offset: 9})
			for _, c := range []change{tt.later, newChange("b", "98", "2", 10), newChange("a", "101", "3", 10)} {
				if c.data == "" {
					continue
				}
				if err := tab.add(publication(0, c), began.Add(5*time.Second)); err != nil {
					t.Fatal(err)
				}
			}
			if got := int(tab.maxStaleness.Seconds()); got != tt.want {
				t.Errorf("a row was wrong for %d s, want %d", got, tt.want)
			}
		})
	}
}

// TestStalest: staleness counts from the first change that the client has not received.
func TestStalest(t *testing.T) {
	began := time.Unix(1000, 0)
	tab := newTable(&rowHistory{start: 10, byKey: map[string][]rowChange{}})
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	row := func(quantity string, update uint64) change { return newChange("b", "99", quantity, update) }
	changes := []change{row("1", 11), row("2", 12), row("0", 13), row("4", 14), row("0", 15), row("6", 16)}
	noted := 0
	for i, s := range []struct {
		noted int // number of changes that were published by then, one each second
		c     change
		at    int
		want  int // seconds
	}{
		{1, changes[0], 1, 1},
		{2, changes[1], 4, 3},  // wrong since 1
		{3, changes[2], 5, 3},  // wrong since 2
		{5, changes[4], 6, 3},  // the versions in between no longer matter
		{6, changes[5], 11, 6}, // wrong since 5, not since 3
	} {
		for ; noted < s.noted; noted++ {
			tab.history.record(changes[noted:noted+1], uint64(11+noted), at(noted))
		}
		if err := tab.add(publication(uint64(i+1), s.c), at(s.at)); err != nil {
			t.Fatal(err)
		}
		if got := int(tab.maxStaleness.Seconds()); got != s.want {
			t.Errorf("after publication %d the stalest row was wrong for %d s, want %d", i+1, got, s.want)
		}
	}
	if n := tab.history.published(); n != 6 || tab.newChanges != 5 {
		t.Errorf("%d changes and %d news, want 6 and 5", n, tab.newChanges)
	}
}
