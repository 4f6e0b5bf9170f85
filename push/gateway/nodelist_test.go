package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/pushtest"
)

// TestEmulationStrangers: questions to nodes that do not exist take nothing from those to nodes that do, and names that no node can have cost no
// question.
func TestEmulationStrangers(t *testing.T) {
	withEmulation(t, nil, func(t *testing.T, _ *pushtest.Faulty, a, b *emulationNode) {
		c := b.connect()
		defer c.close()
		began := time.Now()
		for _, names := range [][2]string{{strings.Repeat("n", 5000), "secret"}, {"nowhere", strings.Repeat("s", 5000)}} {
			if err := a.gateway.Emulate(t.Context(), names[0], names[1], []byte("{}")); !errors.Is(err, gateway.ErrNoSession) {
				t.Errorf("a name of 5,000 bytes: %v", err)
			}
		}
		const questions = 2 * gateway.MostQuestions
		answers := make(chan error, questions)
		for i := range questions {
			go func() { answers <- a.gateway.Emulate(t.Context(), fmt.Sprintf("nowhere%d", i), "secret", []byte("{}")) }()
		}
		synctest.Wait()
		if got := len(answers); got != questions-gateway.MostStrange {
			t.Errorf("%d of %d questions are answered at once", got, questions)
		}
		if got := a.post(c.told.Node, c.told.Session, "{}"); got != http.StatusNoContent {
			t.Errorf("a question to a node that exists is answered %d meanwhile", got)
		}
		if took := time.Since(began); took != 0 { // in fake time
			t.Errorf("it took %v", took)
		}
		for range questions {
			if err := <-answers; !errors.Is(err, gateway.ErrNoSession) {
				t.Errorf("a question got %v", err)
			}
		}
		began = time.Now()
		if err := a.gateway.Emulate(t.Context(), "nowhere", "secret", []byte("{}")); !errors.Is(err, gateway.ErrNoSession) || time.Since(began) == 0 {
			t.Errorf("afterwards a question is answered at once: %v", err)
		}
		if got := a.gateway.Stats().Limited.Inbox; got != 0 {
			t.Errorf("%d questions are counted as those of clients that do not read", got)
		}
	})
}

// TestFirstNodeList: questions that come before the list of nodes is known wait for it, and are none to nodes that do not exist. If the list cannot be
// read, some are asked in any case.
func TestFirstNodeList(t *testing.T) {
	withEmulation(t, nil, func(t *testing.T, faulty *pushtest.Faulty, a, b *emulationNode) {
		c := b.connect()
		defer c.close()
		c.discard()
		release := faulty.Block(pushtest.OpLease)
		const questions = 3 * gateway.MostStrange
		answers := make(chan error, questions+1)
		ask := func(ctx context.Context) {
			answers <- a.gateway.Emulate(ctx, c.told.Node, c.told.Session, []byte("{}"))
		}
		for range questions {
			go ask(t.Context())
		}
		ctx, cancel := context.WithCancel(t.Context())
		go ask(ctx)
		synctest.Wait()
		cancel()
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("a question that was given up got %v", err)
		}
		if got := len(answers); got != 0 {
			t.Errorf("%d questions are answered before the list is known", got)
		}
		release()
		for range questions {
			if err := <-answers; err != nil {
				t.Errorf("a question got %v", err)
			}
		}
		faulty.Fail(pushtest.OpLease, errors.New("no list"))
		for range 2 {
			pass(2 * gateway.NodeListAge)
			if got := a.post(c.told.Node, c.told.Session, "{}"); got != http.StatusNoContent {
				t.Errorf("without a new list: status %d", got)
			}
		}
	})
}

// TestNewNode: a node that has just started is reached at once, and is soon in the list.
func TestNewNode(t *testing.T) {
	withEmulation(t, nil, func(t *testing.T, faulty *pushtest.Faulty, a, b *emulationNode) {
		if err := a.gateway.Emulate(t.Context(), b.hub.ID(), "secret", []byte("{}")); !errors.Is(err, gateway.ErrNoSession) { // reads the list
			t.Errorf("a wrong secret: %v", err)
		}
		started := newEmulationNode(t, faulty, nil)
		defer func() {
			must(t, started.gateway.Shutdown(t.Context()))
			must(t, started.hub.Close())
		}()
		c := started.connect()
		defer c.close()
		c.discard()
		for _, questions := range []int{gateway.MostStrange, 3 * gateway.MostStrange} {
			answers := make(chan error, questions)
			release := faulty.Block(pushtest.OpTell) // so that all are on their way at a time
			for range questions {
				go func() { answers <- a.gateway.Emulate(t.Context(), c.told.Node, c.told.Session, []byte("{}")) }()
			}
			synctest.Wait()
			release()
			for range questions {
				if err := <-answers; err != nil {
					t.Errorf("one of %d questions got %v", questions, err)
				}
			}
			pass(2 * gateway.NodeListAge)
		}
	})
}
