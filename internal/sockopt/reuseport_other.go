//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package sockopt

import (
	"errors"
	"fmt"
)

// SetReusePort fails with errors.ErrUnsupported: a caller that asks for the option shares the port with other sockets.
func SetReusePort(int) error { return fmt.Errorf("SO_REUSEPORT: %w", errors.ErrUnsupported) }
