package main_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
)

// violation is something that a server must not do.
type violation struct{ what string }

func (v *violation) Error() string { return v.what }

func violated(format string, args ...any) error { return &violation{fmt.Sprintf(format, args...)} }

// expectation is what a client has to end with in one channel. It is shared by clients and not changed.
type expectation struct {
	// Of a stream: how many publications there are, and a hash over the data of each followed by a newline. A zero hash is not compared.
	count int
	hash  [sha256.Size]byte
	// rows of a table, data by key; nil says that the channel is a stream.
	rows map[string]string
	// lossy says that positions may be lost. Of a stream, count is then how many are.
	lossy bool
}

// ledger is what one client has received, by channel.
type ledger struct {
	accounts     map[string]*account
	unsubscribed int // channels to which the client is not subscribed yet
	incomplete   int // channels in which it has not got what it expects
}

// account is what a client has received in one channel.
type account struct {
	want     *expectation
	at       push.Position
	entered  bool // the client is subscribed
	complete bool
	resumed  int // how often the client went on where it was
	lost     int // how often that was not possible

	count int // publications received
	hash  hash.Hash
	taken func(data []byte)   // nil, or told of each publication
	moved func(offset uint64) // nil, or told of each publication that has an offset

	rows  map[string][]byte
	right int // rows that are as they have to be in the end
}

func newLedger(want map[string]*expectation) *ledger {
	l := &ledger{accounts: map[string]*account{}, unsubscribed: len(want), incomplete: len(want)}
	for name, e := range want {
		l.accounts[name] = &account{want: e, hash: sha256.New(), rows: map[string][]byte{}}
	}
	return l
}

// enter notes that the client is subscribed to a channel, and takes in what came with the answer.
func (l *ledger) enter(name string, r *protocol.SubscribeResult) error {
	a := l.accounts[name]
	if a == nil {
		return violated("subscribed to %q, which nobody asked for", name)
	}
	resuming := a.at.Epoch != ""
	switch {
	case r.WasRecovering != resuming:
		return violated("%s: was_recovering is %t", name, r.WasRecovering)
	case r.Recovered && resuming:
		a.resumed++
	case resuming && !a.want.lossy:
		return violated("%s: position %v was lost, the new one is %v", name, a.at, r.Position)
	default:
		if resuming {
			a.lost++
		}
		clear(a.rows)
		a.right = 0
		a.at = push.Position{Epoch: r.Position.Epoch} // rows in the answer may be old
	}
	if a.at.Epoch != r.Position.Epoch {
		return violated("%s: resumed in epoch %s at a position of epoch %s", name, r.Position.Epoch, a.at.Epoch)
	}
	if !a.entered {
		a.entered = true
		l.unsubscribed--
	}
	// The position is the one before the publications that come along. It may be further on than the last publication was: the
	// channel's partition goes on, and an event id tells so.
	if r.Position.Offset < a.at.Offset {
		return violated("%s: subscribed at %d, having come to %d", name, r.Position.Offset, a.at.Offset)
	}
	a.at = r.Position
	for i := range r.Publications {
		if err := l.publication(name, &r.Publications[i]); err != nil {
			return err
		}
	}
	l.weigh(a)
	return nil
}

// leave notes that the server ended the subscription to a channel. The position stays.
func (l *ledger) leave(name string) error {
	a := l.accounts[name]
	if a == nil || !a.entered {
		return violated("%q: unsubscribed without being subscribed", name)
	}
	a.entered = false
	l.unsubscribed++
	return nil
}

// publication takes in a publication: its offset is above all before, or it is a table's row without one.
func (l *ledger) publication(name string, p *push.Publication) error {
	a := l.accounts[name]
	switch {
	case a == nil || !a.entered:
		return violated("%q: a publication without being subscribed", name)
	case p.Op == push.Clear:
		return violated("%s: cleared", name)
	case p.Offset == 0 && a.want.rows == nil:
		return violated("%s: a publication without offset", name)
	case p.Offset != 0 && p.Offset <= a.at.Offset:
		return violated("%s: offset %d after %d", name, p.Offset, a.at.Offset)
	case p.Offset != 0:
		a.at.Offset = p.Offset
		if a.moved != nil {
			a.moved(p.Offset)
		}
	}
	a.count++
	if a.taken != nil {
		a.taken(p.Data)
	}
	if a.want.rows == nil {
		_, _ = a.hash.Write(p.Data) // never fails
		_, _ = a.hash.Write([]byte{'\n'})
	} else {
		a.row(p)
	}
	l.weigh(a)
	return nil
}

// row changes the row that a publication is about.
func (a *account) row(p *push.Publication) {
	final, wanted := a.want.rows[p.Key]
	if row, ok := a.rows[p.Key]; ok && wanted && string(row) == final {
		a.right--
	}
	if p.Op == push.Remove {
		delete(a.rows, p.Key)
		return
	}
	a.rows[p.Key] = bytes.Clone(p.Data) // it is borrowed
	if wanted && string(p.Data) == final {
		a.right++
	}
}

// weigh sees whether the client has by now what it expects of a channel.
func (l *ledger) weigh(a *account) {
	var complete bool
	switch {
	case a.want.rows != nil:
		complete = a.right == len(a.want.rows) && len(a.rows) == a.right
	case a.want.lossy:
		complete = a.lost >= a.want.count
	default:
		complete = a.count >= a.want.count
	}
	switch {
	case complete && !a.complete:
		l.incomplete--
	case !complete && a.complete:
		l.incomplete++
	}
	a.complete = complete
}

// check returns what is not as expected, empty when all is. heads are the offsets of the newest publications, by channel: a client
// that has come as far cannot be about to receive more. One that resumed may be told a later position: a channel's partition goes on.
func (l *ledger) check(heads map[string]uint64) string {
	var wrong strings.Builder
	for name, a := range l.accounts {
		sum := [sha256.Size]byte(a.hash.Sum(nil))
		switch {
		case a.at.Offset < heads[name]:
			fmt.Fprintf(&wrong, "%s: ends at %d, want at least %d\n", name, a.at.Offset, heads[name])
		case a.want.rows != nil:
			if !maps.EqualFunc(a.rows, a.want.rows, func(got []byte, want string) bool { return string(got) == want }) {
				fmt.Fprintf(&wrong, "%s: %d rows, %d of them right, want %d\n", name, len(a.rows), a.right, len(a.want.rows))
			}
		case a.want.lossy:
			if a.lost < a.want.count {
				fmt.Fprintf(&wrong, "%s: %d positions lost, want %d\n", name, a.lost, a.want.count)
			}
		case a.count != a.want.count:
			fmt.Fprintf(&wrong, "%s: %d publications, want %d\n", name, a.count, a.want.count)
		case a.want.hash != [sha256.Size]byte{} && sum != a.want.hash:
			fmt.Fprintf(&wrong, "%s: %d publications, but not those that were published\n", name, a.count)
		}
	}
	return wrong.String()
}

// String says how far the client has come, for reports of failures.
func (l *ledger) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(l.accounts)) {
		a := l.accounts[name]
		fmt.Fprintf(&b, "  %s: %d publications up to %d; rows %d, right %d; expected %d publications, %d rows; resumed %d, lost %d\n",
			name, a.count, a.at.Offset, len(a.rows), a.right, a.want.count, len(a.want.rows), a.resumed, a.lost)
	}
	return b.String()
}

// resumed returns how many subscriptions went on where they were.
func (l *ledger) resumed() int {
	n := 0
	for _, a := range l.accounts {
		n += a.resumed
	}
	return n
}
