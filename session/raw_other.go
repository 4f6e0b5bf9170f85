//go:build !linux

package session

import "github.com/sluice-push/sluice/internal/buffer"

// raw is nothing here: elsewhere than on Linux every connection has the plain stream, and sends by copying.
type raw struct{}

func newRaw(*Session) stream { return nil }

func (s *Session) listenLocked(*buffer.Large) {}

func (s *Session) reportedLocked(*buffer.Large) bool { return true }

func (s *Session) unreportedLocked() bool { return false }
