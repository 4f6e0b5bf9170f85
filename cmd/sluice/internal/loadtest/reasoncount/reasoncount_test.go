package reasoncount_test

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/reasoncount"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/websocket/wire"
)

// Statuses 429 and 5xx, the end for too many requests and temporary errors of replies are temporary.
func TestIsTemporary(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"none":         {nil, false},
		"reset":        {syscall.ECONNRESET, false},
		"503":          {&wire.HandshakeError{Status: 503}, true},
		"429, wrapped": {fmt.Errorf("dial: %w", &wire.HandshakeError{Status: 429}), true},
		"403":          {&wire.HandshakeError{Status: 403}, false},
		"stream, 503":  {&clientconn.Refused{Status: 503}, true},
		"stream, 401":  {&clientconn.Refused{Status: 401}, false},
		"3013":         {reasoncount.Ended("x", &clientconn.Closed{Disconnect: push.DisconnectTooManyRequests}), true},
		"3500":         {&clientconn.Closed{Disconnect: push.Disconnect{Code: 3500}}, false},
		"111":          {fmt.Errorf("connect: %w", push.ErrTooManyRequests), true},
		"103":          {push.ErrPermissionDenied, false},
		"own":          {errors.New("503"), false},
	} {
		if got := reasoncount.IsTemporary(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if err := reasoncount.Ended("x", syscall.ECONNRESET); err.Error() != "x" || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v", err)
	}
}

func TestCounts(t *testing.T) {
	var c reasoncount.Counts
	if all := c.All(); all != nil {
		t.Errorf("of nothing there are %v", all)
	}
	long := strings.Repeat("x", reasoncount.MaxReason)
	var adding sync.WaitGroup
	for range 4 {
		adding.Go(func() {
			c.Add("refused", 2)
			c.Add(long+"y", 1)
		})
	}
	testwait.Return(t, adding.Wait)
	if got, want := c.All(), map[string]int{"refused": 8, long: 4}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for i := range 100 {
		c.Add(strconv.Itoa(i), 1)
	}
	c.Add("refused", 1)
	got := c.All()
	if got[reasoncount.Other] != 52 || len(got) != 51 || got["refused"] != 9 {
		t.Errorf("%d of %d others, %v", got[reasoncount.Other], len(got), got)
	}
}
