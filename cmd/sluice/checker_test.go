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

// violation is the error of a server that broke a rule.
type violation struct{ what string }

func (v *violation) Error() string { return v.what }

func violated(format string, args ...any) error { return &violation{fmt.Sprintf(format, args...)} }

// expectation is what a client must have received from one channel in the end. Clients share it, and it is not changed.
type expectation struct {
	// For a stream: the number of publications, and a hash of the data of each, followed by a newline. A zero hash is not compared.
	count int
	hash  [sha256.Size]byte
	// rows of a table, data by key. If nil, the channel is a stream.
	rows map[string]string
	// lossy says that positions may be lost. For a stream, count is then the number of publications that are.
	lossy bool
}

// checker holds what one client has received, by channel, and checks it.
type checker struct {
	accounts     map[string]*channelState
	unsubscribed int // number of channels to which the client is not subscribed yet
	incomplete   int // number of channels that lack something expected
}

// channelState is what a client has received from one channel.
type channelState struct {
	want     *expectation
	at       push.Position
	entered  bool // the client is subscribed
	complete bool
	resumed  int // how often the client resumed
	lost     int // how often the client could not resume

	count int // received publications
	hash  hash.Hash
	taken func(data []byte)   // if not nil, called with each publication
	moved func(offset uint64) // if not nil, called with each offset

	rows  map[string][]byte
	right int // number of rows that equal the expected ones
}

func newChecker(want map[string]*expectation) *checker {
	l := &checker{accounts: map[string]*channelState{}, unsubscribed: len(want), incomplete: len(want)}
	for name, e := range want {
		l.accounts[name] = &channelState{want: e, hash: sha256.New(), rows: map[string][]byte{}}
	}
	return l
}

// request returns the request to subscribe to a channel from the client's position.
func (l *checker) request(name string) protocol.SubscribeRequest {
	at := l.accounts[name].at
	return protocol.SubscribeRequest{Channel: name, Recover: at.Epoch != "", Position: at}
}

// requests returns the requests for all channels, by name.
func (l *checker) requests() map[string]protocol.SubscribeRequest {
	all := map[string]protocol.SubscribeRequest{}
	for name := range l.accounts {
		all[name] = l.request(name)
	}
	return all
}

// enter processes the answer to a subscribe command.
func (l *checker) enter(name string, r *protocol.SubscribeResult) error {
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
		a.at = push.Position{Epoch: r.Position.Epoch} // rows in the answer may be older
	}
	if a.at.Epoch != r.Position.Epoch {
		return violated("%s: resumed in epoch %s at a position of epoch %s", name, r.Position.Epoch, a.at.Epoch)
	}
	if !a.entered {
		a.entered = true
		l.unsubscribed--
	}
	// The position is the one before the publications in the answer. It may be later than the last publication, because the channel's partition
	// advances, and an event id contains its position.
	if r.Position.Offset < a.at.Offset {
		return violated("%s: subscribed at %d, having come to %d", name, r.Position.Offset, a.at.Offset)
	}
	a.at = r.Position
	for i := range r.Publications {
		if err := l.publication(name, &r.Publications[i]); err != nil {
			return err
		}
	}
	l.update(a)
	return nil
}

// leave processes the end of a subscription by the server. The position is kept.
func (l *checker) leave(name string) error {
	a := l.accounts[name]
	if a == nil || !a.entered {
		return violated("%q: unsubscribed without being subscribed", name)
	}
	a.entered = false
	l.unsubscribed++
	return nil
}

// publication processes a publication. Its offset must be higher than all before, or it must be a table's row without one.
func (l *checker) publication(name string, p *push.Publication) error {
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
		_, _ = a.hash.Write(p.Data) // never returns an error
		_, _ = a.hash.Write([]byte{'\n'})
	} else {
		a.row(p)
	}
	l.update(a)
	return nil
}

// row applies a publication to its row.
func (a *channelState) row(p *push.Publication) {
	final, wanted := a.want.rows[p.Key]
	if row, ok := a.rows[p.Key]; ok && wanted && string(row) == final {
		a.right--
	}
	if p.Op == push.Remove {
		delete(a.rows, p.Key)
		return
	}
	a.rows[p.Key] = bytes.Clone(p.Data) // copied, because the data is valid only during the call
	if wanted && string(p.Data) == final {
		a.right++
	}
}

// update checks whether the client has received everything that it expects of a channel.
func (l *checker) update(a *channelState) {
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

// check describes all differences from the expectations. It returns "" if there are none. heads are the offsets of the newest publications, by
// channel; a client that has reached them does not expect more. A client that resumed may have a later position, because a channel's partition
// advances.
func (l *checker) check(heads map[string]uint64) string {
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

// String describes the client's progress, for failure messages.
func (l *checker) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(l.accounts)) {
		a := l.accounts[name]
		fmt.Fprintf(&b, "  %s: %d publications up to %d; rows %d, right %d; expected %d publications, %d rows; resumed %d, lost %d\n",
			name, a.count, a.at.Offset, len(a.rows), a.right, a.want.count, len(a.want.rows), a.resumed, a.lost)
	}
	return b.String()
}

// resumed returns how many subscriptions were resumed.
func (l *checker) resumed() int {
	n := 0
	for _, a := range l.accounts {
		n += a.resumed
	}
	return n
}
