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

// rowHistory records when each row of a channel changed. It tells how stale a client's row was. Its methods may be called concurrently.
type rowHistory struct {
	start uint64 // number of the snapshot's update; not changed after creation

	mu      sync.RWMutex
	byKey   map[string][]rowChange // by key, in order
	changes int                    // number of changes
}

// rowChange is one change of a row.
type rowChange struct {
	update  uint64
	at      time.Time
	removed bool
}

// record records changes that are about to be published.
func (a *rowHistory) record(changes []change, update uint64, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range changes {
		a.byKey[c.key] = append(a.byKey[c.key], rowChange{update, at, c.data == ""})
	}
	a.changes += len(changes)
}

// since returns when a row changed from the client's version, and zero if the client's version is current. If has is true, the client has the
// row of the given update. If has is false, the client has no row, but may have had the given update before. Having no row is correct from the
// newest removal on, whether or not the client received that removal.
func (a *rowHistory) since(key string, has bool, update uint64) time.Time {
	a.mu.RLock()
	defer a.mu.RUnlock()
	all := a.byKey[key]
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

// published returns the number of changes.
func (a *rowHistory) published() int {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.changes
}

// table holds the rows that one client has of one channel, and the rows that it should have. Its methods may be called concurrently.
type table struct {
	history *rowHistory
	form    push.Delta // in which publications may come as deltas

	mu           sync.Mutex
	rows         book
	sets         map[string]uint64 // the newest update of each row that was received; kept when the row is removed
	position     push.Position
	received     int           // publications
	newChanges   int           // received changes that the client did not have: without the rows of the first snapshot and repeated changes
	deltas       int           // publications that were deltas
	maxStaleness time.Duration // longest time that a row was wrong before it was corrected
	goal         book          // the rows to wait for; nil: none. Shared, and never changed
	matching     int           // number of rows that equal those of goal
	reached      chan struct{} // closed when the rows equal goal
}

func newTable(a *rowHistory) *table {
	return &table{history: a, rows: book{}, sets: map[string]uint64{}}
}

// subscribed processes the answer to a subscribe command. If the server could not resume from the client's position, the table starts empty.
func (t *table) subscribed(resumed bool, at push.Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !resumed {
		t.rows, t.matching = book{}, 0
	}
	t.position = at
}

// add processes a publication.
func (t *table) add(p *push.Publication, now time.Time) error {
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
		t.matching = 0
		return nil
	}
	c := change{key: p.Key}
	row, has := t.rows[p.Key]
	if wrong := t.history.since(p.Key, has, t.sets[p.Key]); !wrong.IsZero() {
		t.maxStaleness = max(t.maxStaleness, now.Sub(wrong))
	}
	if p.Op == push.Set {
		var l level
		data, err := resolve(t.form, p, row, has)
		if err != nil {
			return err
		}
		if p.Delta {
			t.deltas++
		}
		if err := json.Unmarshal(data, &l); err != nil {
			return fmt.Errorf("row %s: %w", p.Key, err)
		}
		if l.Update < t.sets[p.Key] {
			return fmt.Errorf("row %s went back from update %d to %d", p.Key, t.sets[p.Key], l.Update)
		}
		if l.Update > t.sets[p.Key] && l.Update > t.history.start {
			t.newChanges++
		}
		c.data, t.sets[p.Key] = string(data), l.Update
	} else {
		t.newChanges++
	}
	t.applyLocked(c)
	return nil
}

// applyLocked applies a change, and checks whether the rows now equal the goal.
func (t *table) applyLocked(c change) {
	want, wanted := t.goal[c.key]
	if row, ok := t.rows[c.key]; ok && wanted && row == want {
		t.matching--
	}
	t.rows.apply(c)
	if wanted && c.data == want {
		t.matching++
	}
	t.checkGoalLocked()
}

func (t *table) checkGoalLocked() {
	if t.goal == nil || t.matching != len(t.goal) || len(t.rows) != t.matching {
		return
	}
	select {
	case <-t.reached:
	default:
		close(t.reached)
	}
}

// setGoal sets the rows to wait for. It returns a channel that is closed when the rows equal them.
func (t *table) setGoal(goal book) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.goal, t.matching, t.reached = goal, 0, make(chan struct{})
	for key, row := range t.rows {
		if want, ok := goal[key]; ok && row == want {
			t.matching++
		}
	}
	t.checkGoalLocked()
	return t.reached
}

// check describes how the rows differ from the goal and from the exchange's best quote. If nothing differs, it returns "".
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
