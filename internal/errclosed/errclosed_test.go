package errclosed_test

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/sluice-push/sluice/internal/errclosed"
)

func TestError(t *testing.T) {
	const a, b = errclosed.Error("a: closed"), errclosed.Error("b: closed")
	err := fmt.Errorf("send: %w", a)
	if !errors.Is(err, a) || !errors.Is(err, net.ErrClosed) || errors.Is(err, b) || err.Error() != "send: a: closed" {
		t.Errorf("%v", err)
	}
}
