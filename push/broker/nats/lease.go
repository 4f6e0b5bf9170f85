package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	nats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-push/sluice/push/broker"
)

// Leases are messages of a stream in memory, one for each key, which the server deletes when their time is over. The subject of a key has three
// tokens: the key up to and including its first slash, the rest up to and including its first NUL, and the rest of that. So the server finds
// leases by the usual prefixes, a kind, or a kind and a name, without reading all others.
const (
	leaseStream = "sluice_leases"
	leasePrefix = "sluice.lease."
)

// cutKey returns the three parts of a lease's key, and how many of them are equal for all keys that begin with key.
func cutKey(key string) (parts [3]string, fixed int) {
	rest := key
	for i, end := range []string{"/", "\x00"} {
		at := strings.Index(rest, end)
		if at < 0 {
			parts[i] = rest
			return parts, fixed
		}
		parts[i], rest = rest[:at+1], rest[at+1:]
		fixed = i + 1
	}
	parts[2] = rest
	return parts, fixed
}

// mostLeaseSubject is how long the subject of a lease may be: see mostSubject. It leaves room for the rest of a line.
const mostLeaseSubject = 3 << 10

// leaseMessage returns a message that stores something under the key of a lease. The error is [broker.ErrTooLarge]: a server would end the connection of
// a client that sends it a key so long, and for good.
func leaseMessage(key string, value []byte) (*nats.Msg, error) {
	subject := leaseSubject(key)
	if len(subject) > mostLeaseSubject {
		return nil, fmt.Errorf("%w: its key takes %d bytes, at most %d are allowed", broker.ErrTooLarge, len(subject), mostLeaseSubject)
	}
	return &nats.Msg{Subject: subject, Data: value, Header: nats.Header{}}, nil
}

func leaseSubject(key string) string {
	parts, _ := cutKey(key)
	out := []byte(leasePrefix)
	for i, part := range parts {
		if i > 0 {
			out = append(out, '.')
		}
		out = appendToken(out, part)
	}
	return string(out)
}

// leaseFilter returns a subject that matches all keys with a prefix, and perhaps others.
func leaseFilter(prefix string) string {
	parts, fixed := cutKey(prefix)
	out := []byte(leasePrefix)
	for _, part := range parts[:fixed] {
		out = append(appendToken(out, part), '.')
	}
	return string(append(out, '>'))
}

// leaseKey is the inverse of leaseSubject.
func leaseKey(subj string) string {
	var key strings.Builder
	for token := range strings.SplitSeq(strings.TrimPrefix(subj, leasePrefix), ".") {
		key.WriteString(nameOf(token))
	}
	return key.String()
}

// PutLease creates or renews a lease. It rounds ttl up to whole seconds.
func (b *Broker) PutLease(ctx context.Context, l broker.Lease, ttl time.Duration) error {
	err := b.usable(ctx)
	if err == nil && ttl <= 0 {
		err = fmt.Errorf("time to live %v: it must be positive", ttl)
	}
	var m *nats.Msg
	if err == nil {
		m, err = leaseMessage(l.Key, l.Value)
	}
	if err == nil {
		m.Header[headerTTL] = []string{strconv.FormatInt(int64((ttl+time.Second-1)/time.Second), 10) + "s"}
		err = b.withLeases(ctx, func(ctx context.Context) error {
			_, err := b.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("nats: lease %.300q: %w", l.Key, b.closedOr(err))
	}
	return nil
}

// DropLease ends a lease. It publishes a marker in the lease's place, which expires a second later, because deleting the message costs the
// server five times as much.
func (b *Broker) DropLease(ctx context.Context, key string) error {
	err := b.usable(ctx)
	var m *nats.Msg
	if err == nil {
		m, err = leaseMessage(key, nil)
	}
	if err == nil {
		m.Header = nats.Header{headerRemoved: {"1"}, headerTTL: {"1s"}}
		err = b.withLeases(ctx, func(ctx context.Context) error {
			_, err := b.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("nats: drop lease %.300q: %w", key, b.closedOr(err))
	}
	return nil
}

// ListLeases returns the live leases with a prefix. If the prefix ends with a slash, or with the first NUL after a slash, the server need not
// read other leases.
func (b *Broker) ListLeases(ctx context.Context, prefix string) ([]broker.Lease, error) {
	byKey := make(map[string][]byte)
	err := b.usable(ctx)
	if err == nil {
		err = b.withLeases(ctx, func(ctx context.Context) error { return b.readLeases(ctx, prefix, byKey) })
	}
	if err != nil {
		return nil, fmt.Errorf("nats: list leases: %w", b.closedOr(err))
	}
	out := make([]broker.Lease, 0, len(byKey))
	for key, value := range byKey {
		out = append(out, broker.Lease{Key: key, Value: value})
	}
	slices.SortFunc(out, func(a, b broker.Lease) int { return strings.Compare(a.Key, b.Key) })
	return out, nil
}

func (b *Broker) readLeases(ctx context.Context, prefix string, byKey map[string][]byte) error {
	r := getRequest{Seq: 1, Next: leaseFilter(prefix), Batch: batchMessages, MaxBytes: batchBytes}
	for {
		var last uint64
		more, err := b.get(ctx, leaseStream, r, func(s *stored) error {
			last = s.seq
			key := leaseKey(s.subject)
			switch {
			case !strings.HasPrefix(key, prefix):
			case value(s.header, headerRemoved) != "":
				delete(byKey, key)
			default:
				byKey[key] = s.data // a lease that is renewed meanwhile comes again later
			}
			return nil
		})
		if err != nil || more == 0 || last == 0 {
			return err
		}
		r.Seq = last + 1
	}
}

// withLeases calls do, which uses the stream of leases, and makes the stream if it does not exist. A server that was restarted has lost it with
// all leases, and their owners renew them.
func (b *Broker) withLeases(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := b.timed(ctx)
	defer cancel()
	err := do(ctx)
	if errors.Is(err, errReconnected) {
		err = do(ctx)
	}
	if !isMissing(err) {
		return err
	}
	if _, err := b.js.CreateStream(ctx, jetstream.StreamConfig{
		Name:              leaseStream,
		Description:       "Sluice, leases",
		Subjects:          []string{leasePrefix + ">"},
		Storage:           jetstream.MemoryStorage,
		MaxMsgsPerSubject: 1,
		AllowDirect:       true,
		AllowMsgTTL:       true,
	}); err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return fmt.Errorf("create stream %s: %w", leaseStream, err)
	}
	return do(ctx)
}

// isMissing reports whether an error means that there is no such stream.
func isMissing(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.Is(err, nats.ErrNoResponders) || errors.Is(err, errNoResponders)
}
