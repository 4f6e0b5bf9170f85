//go:build !linux

package pulse

import (
	"errors"
	"time"
)

// Pulse is none here.
type Pulse struct{}

// New fails.
func New(time.Duration) (*Pulse, error) { return nil, errors.ErrUnsupported }

// Wait is never called.
func (*Pulse) Wait() error { return errors.ErrUnsupported }

// Close is never called.
func (*Pulse) Close() error { return nil }
