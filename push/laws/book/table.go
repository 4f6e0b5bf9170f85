package main

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push"
)

// ages knows when each row of a channel changed, so that a client can say how stale its own was. Its methods may be called concurrently.
type ages struct {
	start uint64 // the update of the snapshot; set when it is made

	mu      sync.RWMutex
	stamps  map[string][]stamp // by key, in order
	changes int                // how many there were
}

// stamp is one change of a row.
type stamp struct {
	update  uint64
	at      time.Time
	removed bool
}

// note notes changes that are about to be published.
func (a *ages) note(changes []change, update uint64, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range changes {
		a.stamps[c.key] = append(a.stamps[c.key], stamp{update, at, c.data == ""})
	}
	a.changes += len(changes)
}

// since returns since when a row is not any more as a client has it: the version of an update, or none, which it may have had before. It is
// zero when the row is still so. To have none is right from the newest removal on, whether the client was told of it or not.
func (a *ages) since(key string, has bool, update uint64) time.Time {
	a.mu.RLock()
	defer a.mu.RUnlock()
	all := a.stamps[key]
	i := sort.Search(len(all), func(i int) bool { return all[i].update > update })
	for j := len(all) - 1; j >= i && !has; j-- {
		if all[j].removed {
			i = j + 1
		}
	}
	if i == len(all) {
		return time.Time{}
	}
	return all[i].at
}

// published is how many changes there were.
func (a *ages) published() int {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.changes
}

// table is what one client has of one channel, and what it ought to have. Its methods may be called concurrently.
type table struct {
	ages *ages
	form push.Delta // in which publications may come as differences

	mu          sync.Mutex
	rows        book
	sets        map[string]uint64 // the newest update of each row that came; it stays when the row is removed
	position    push.Position
	received    int           // publications
	news        int           // of these, changes that the client did not have: no rows of the first snapshot, and none a second time
	differences int           // of these, publications as differences
	stalest     time.Duration // how long a row was wrong at most before it was put right
	goal        book          // nil: nothing is waited for; shared, not changed
	right       int           // rows that are as in goal
	reached     chan struct{} // closed when the rows are those of goal
}

func newTable(a *ages) *table {
	return &table{ages: a, rows: book{}, sets: map[string]uint64{}}
}

// enter takes in the answer to a subscribe command: unless the server has found the position again, everything begins afresh.
func (t *table) enter(resumed bool, at push.Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !resumed {
		t.rows, t.right = book{}, 0
	}
	t.position = at
}

// take takes in a publication.
func (t *table) take(p *push.Publication, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.received++
	if p.Offset != 0 {
		if p.Offset <= t.position.Offset {
			return fmt.Errorf("offset %d came after %d", p.Offset, t.position.Offset)
		}
		t.position.Offset = p.Offset
	}
	if p.Op == push.Clear {
		clear(t.rows)
		t.right = 0
		return nil
	}
	c := change{key: p.Key}
	row, has := t.rows[p.Key]
	if wrong := t.ages.since(p.Key, has, t.sets[p.Key]); !wrong.IsZero() {
		t.stalest = max(t.stalest, now.Sub(wrong))
	}
	if p.Op == push.Set {
		var l level
		data, err := whole(t.form, p, row, has)
		if err != nil {
			return err
		}
		if p.Delta {
			t.differences++
		}
		if err := json.Unmarshal(data, &l); err != nil {
			return fmt.Errorf("row %s: %w", p.Key, err)
		}
		if l.Update < t.sets[p.Key] {
			return fmt.Errorf("row %s went back from update %d to %d", p.Key, t.sets[p.Key], l.Update)
		}
		if l.Update > t.sets[p.Key] && l.Update > t.ages.start {
			t.news++
		}
		c.data, t.sets[p.Key] = string(data), l.Update
	} else {
		t.news++
	}
	t.applyLocked(c)
	return nil
}

// applyLocked applies a change and sees whether that makes the rows those of the goal.
func (t *table) applyLocked(c change) {
	want, wanted := t.goal[c.key]
	if row, ok := t.rows[c.key]; ok && wanted && row == want {
		t.right--
	}
	t.rows.apply(c)
	if wanted && c.data == want {
		t.right++
	}
	t.weighLocked()
}

func (t *table) weighLocked() {
	if t.goal == nil || t.right != len(t.goal) || len(t.rows) != t.right {
		return
	}
	select {
	case <-t.reached:
	default:
		close(t.reached)
	}
}

// aim says what the rows ought to become, and returns a channel that is closed when they are.
func (t *table) aim(goal book) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.goal, t.right, t.reached = goal, 0, make(chan struct{})
	for key, row := range t.rows {
		if want, ok := goal[key]; ok && row == want {
			t.right++
		}
	}
	t.weighLocked()
	return t.reached
}

// check says what differs from the goal, and from the best quote that the exchange itself named. Empty: nothing.
func (t *table) check(best quote) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var wrong []string
	missing, other, extra := 0, 0, 0
	for key, want := range t.goal {
		switch row, ok := t.rows[key]; {
		case !ok:
			missing++
		case row != want:
			other++
		}
	}
	for key := range t.rows {
		if _, ok := t.goal[key]; !ok {
			extra++
		}
	}
	if missing+other+extra > 0 {
		wrong = append(wrong, fmt.Sprintf("of %d rows %d are missing, %d differ, %d are too many", len(t.goal), missing, other, extra))
	}
	switch got, err := t.rows.quote(); {
	case err != nil:
		wrong = append(wrong, err.Error())
	case got != best:
		wrong = append(wrong, fmt.Sprintf("the best are %v, the exchange says %v", got, best))
	}
	return strings.Join(wrong, "; ")
}
