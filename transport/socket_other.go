//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package transport

import (
	"errors"
	"fmt"
)

// setReusePort cannot be passed over: whoever asks for it has others on the port.
func setReusePort(int) error { return fmt.Errorf("SO_REUSEPORT: %w", errors.ErrUnsupported) }

func setBacklog(int, int) error { return nil }

func setMode(int, uint32) {}
