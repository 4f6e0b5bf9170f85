package nats_test

import (
	"errors"
	"testing"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/nats"
)

// The answers of JetStream to a publication, and whether a retry may succeed. Codes and texts are those of nats-server 2.15 (server/errors.json)
// for messages without expectations, batches, counters and schedules, which the broker does not send.
func TestRefusals(t *testing.T) {
	answer := func(code jetstream.ErrorCode, text string) error {
		return &jetstream.APIError{ErrorCode: code, Description: text}
	}
	var unknown error // it is unknown whether the publication was stored
	for _, tt := range []struct {
		err  error
		want error
	}{
		{answer(10054, "message size exceeds maximum allowed"), broker.ErrTooLarge},
		{answer(10097, "header size exceeds maximum allowed of 64k"), broker.ErrTooLarge},
		{answer(10077, "message too large"), broker.ErrTooLarge},

		{answer(10077, "maximum bytes exceeded"), broker.ErrBusy},
		{answer(10077, "no space left on device"), broker.ErrBusy},
		{answer(10002, "resource limits exceeded for account"), broker.ErrBusy},
		{answer(10009, "JetStream cluster can not handle request"), broker.ErrBusy},
		{answer(10023, "insufficient resources"), broker.ErrBusy},
		{answer(10028, "insufficient memory resources available"), broker.ErrBusy},
		{answer(10047, "insufficient storage resources available"), broker.ErrBusy},
		{answer(10158, "duplicate message id is in process"), broker.ErrBusy},
		// The log tells the operator to mend these; then the same publication is accepted.
		{answer(10109, "invalid operation on sealed stream"), broker.ErrBusy},
		{answer(10165, "invalid per-message TTL"), broker.ErrBusy},
		{answer(10166, "per-message TTL is disabled"), broker.ErrBusy},
		{jetstream.ErrNoStreamResponse, broker.ErrBusy},

		{natsgo.ErrDisconnected, unknown},
		{jetstream.ErrAsyncPublishTimeout, unknown},
		{errors.New("something new"), unknown},
	} {
		checkRefusal(t, nats.Refusal(tt.err), tt.err, tt.want)
	}
	for _, tt := range []struct{ err, want error }{
		{natsgo.ErrDisconnected, broker.ErrBusy},
		{natsgo.ErrReconnectBufExceeded, broker.ErrBusy},
		{natsgo.ErrConnectionClosed, broker.ErrClosed},
		{errors.New("something new"), unknown},
	} {
		checkRefusal(t, nats.NotSent(tt.err), tt.err, tt.want)
	}
}

// checkRefusal checks that got is want, or none of the errors that callers branch on if want is nil, and that it gives the reason.
func checkRefusal(t *testing.T, got, cause, want error) {
	t.Helper()
	for _, one := range []error{broker.ErrBusy, broker.ErrTooLarge, broker.ErrClosed, broker.ErrUnknownNamespace} {
		if errors.Is(got, one) != errors.Is(want, one) {
			t.Errorf("%v becomes %v, want %v", cause, got, want)
		}
	}
	if want == nil && !errors.Is(got, cause) {
		t.Errorf("%v becomes %v, which does not say why", cause, got)
	}
}
