package rpc_test

import (
	"context"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
)

// A client that asks for large answers and does not read them makes the server hold a bounded number of bytes, also if all calls were under way before the
// first answer. It is told of the answers that were dropped.
func TestAnswersThatWait(t *testing.T) {
	const size, calls, most = 256 << 10, 128, 1 << 20
	p := newPlace(t, &rpc.Options{MaxBytes: most / 4})
	began, goOn := make(chan struct{}, calls), make(chan struct{})
	p.server.Handle("Large", rpc.Method{Protocol: frame.Bare, Func: func(context.Context, *rpc.Call, []byte) ([]byte, error) {
		began <- struct{}{}
		<-goOn
		return make([]byte, size), nil
	}})
	w := p.dialWire()
	for i := range calls {
		f := &frame.Frame{Dialect: bareDialect, Kind: frame.Call, Sequence: int32(i + 1), HeaderSequence: int32(i + 1)} //nolint:gosec // small
		w.send(f, "Large", nil)
	}
	for range calls {
		testwait.Receive(t, began)
	}
	close(goOn)
	testwait.True(t, "an answer is dropped", func() bool { return p.server.Stats().Refused > 0 })
	answers, refused := 0, 0
	for range calls {
		switch f := w.receive(); f.Kind {
		case frame.Reply:
			answers++
		case frame.Exception:
			refused++
		default:
			t.Fatal(f.Kind)
		}
	}
	if answers < most/size || refused == 0 {
		t.Errorf("%d answers, %d refused", answers, refused)
	}
	testwait.True(t, "nothing is under way", func() bool { return p.server.Stats().Pending == 0 })
}
