//go:build !linux

package transport

import (
	"errors"
	"net"
)

// socketOptions says that the options are set on sockets. Here they are set on connections: what these inherit differs between systems.
const socketOptions = false

// option is nothing here.
type option struct{}

func (*Options) each(bool) []option { return nil }

func (*Options) setInherited(int) error { return nil }

func (*Options) setDialing(int, bool) error { return nil }

// setNotSentLowat is for Linux only.
func setNotSentLowat(*net.TCPConn, int) error { return errors.ErrUnsupported }
