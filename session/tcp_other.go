//go:build !linux

package session

import (
	"errors"
	"net"
)

// setNotSentLowat is for Linux only.
func setNotSentLowat(*net.TCPConn, int) error { return errors.ErrUnsupported }
