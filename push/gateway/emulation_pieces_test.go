package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/pushtest"
)

// shortMessages is a broker that takes only short messages between nodes, as servers of NATS do.
type shortMessages struct{ broker.Broker }

// Tell implements broker.Broker.
func (s shortMessages) Tell(ctx context.Context, node string, payload []byte) error {
	if len(payload) > 64<<10 {
		return fmt.Errorf("%w: %d bytes", broker.ErrTooLarge, len(payload))
	}
	return s.Broker.Tell(ctx, node, payload)
}

// piece is a message between nodes: a piece of a frame for a client.
type piece struct {
	Number uint64 `json:"n"`
	From   string `json:"from"`
	Secret string `json:"secret"`
	Frame  []byte `json:"frame"`
	At     int    `json:"at"`
	More   bool   `json:"more"`
}

// sendPiece sends a message to a node as another node does.
func (n *emulationNode) sendPiece(to *emulationNode, p piece) {
	n.t.Helper()
	text, err := json.Marshal(p)
	must(n.t, err)
	must(n.t, n.hub.SendNode(n.t.Context(), to.hub.ID(), text))
	synctest.Wait()
}

// longCommand returns a publication of about so many bytes.
func longCommand(id, size int) string {
	return publishCommand(id, "a", fmt.Sprintf(`"%d %s"`, id, strings.Repeat("x", size)))
}

// TestEmulationPieces: a frame of any length goes to another node, as it was sent, in messages that are short.
func TestEmulationPieces(t *testing.T) {
	const frameBytes = 1 << 20
	withEmulation(t, &gateway.Options{MessageBytes: frameBytes}, func(t *testing.T, _ *pushtest.Faulty, a, b *emulationNode) {
		c := a.connect()
		defer c.close()
		c.discard()
		var want []string
		for i, size := range []int{1, gateway.PieceBytes - 100, gateway.PieceBytes, 2 * gateway.PieceBytes, frameBytes - 100} {
			command := longCommand(i+2, size)
			want = append(want, fmt.Sprintf(`"%d %s"`, i+2, strings.Repeat("x", size)))
			if got := b.post(a.hub.ID(), c.told.Session, command); got != http.StatusNoContent {
				t.Errorf("a frame of %d bytes: status %d", len(command), got)
			}
			synctest.Wait()
		}
		got := a.published("a")
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				t.Fatalf("of %d frames %d were carried out; number %d was not, or differs", len(want), len(got), i)
			}
		}
	})
}

// TestEmulationPiecesLost: pieces that do not belong together are not carried out, and what is begun and never ended is bounded and forgotten.
func TestEmulationPiecesLost(t *testing.T) {
	const frameBytes = 4 * gateway.PieceBytes
	withEmulation(t, &gateway.Options{MessageBytes: frameBytes, PingInterval: -1}, func(t *testing.T, _ *pushtest.Faulty, a, b *emulationNode) {
		c := a.connect()
		defer c.close()
		c.discard()
		text := longCommand(2, 100)
		send := func(number uint64, at, end int, more bool) {
			b.sendPiece(a, piece{number, b.hub.ID(), c.told.Session, []byte(text[at:end]), at, more})
		}
		send(1e6, 50, len(text), false)   // without a beginning
		send(1e6+1, 0, 50, true)          // a gap
		send(1e6+1, 60, len(text), false) // likewise
		send(1e6+2, 0, 50, true)          // twice
		send(1e6+2, 0, 50, true)          // likewise
		send(1e6+3, 0, 50, true)          // two numbers
		send(1e6+4, 50, len(text), false) // likewise
		send(1e6+5, 0, 50, true)
		send(1e6+5, 50, len(text), false) // fine
		if got := a.published("a"); len(got) != 1 {
			t.Fatalf("%d frames were carried out, want the one that is whole", len(got))
		}
		if a.gateway.Len() != 1 {
			t.Fatal("the client is gone")
		}
		// Beginnings of other frames fill what may wait: the long frame is refused, and not when they are forgotten.
		whole := strings.Repeat(" ", gateway.PieceBytes)
		for i := range 3 {
			b.sendPiece(a, piece{2e6 + uint64(i), b.hub.ID(), c.told.Session, []byte(whole), 0, true})
		}
		long := longCommand(3, 2*gateway.PieceBytes)
		if got := b.post(a.hub.ID(), c.told.Session, long); got != http.StatusTooManyRequests {
			t.Errorf("beyond what may wait: status %d", got)
		}
		if got := b.post(a.hub.ID(), c.told.Session, publishCommand(4, "a", "4")); got != http.StatusNoContent {
			t.Errorf("a short frame meanwhile: status %d", got)
		}
		<-time.After(time.Minute)
		if got := b.post(a.hub.ID(), c.told.Session, long); got != http.StatusNoContent {
			t.Errorf("when the beginnings are forgotten: status %d", got)
		}
		synctest.Wait()
		if got := a.published("a"); len(got) != 3 {
			t.Errorf("%d frames were carried out, want 3", len(got))
		}
		c.close()
		if got := b.post(a.hub.ID(), c.told.Session, long); got != http.StatusNotFound {
			t.Errorf("after the end: status %d", got)
		}
	})
}
