//go:build !linux

package websocket

import (
	"net"
	"syscall"
)

func deferAccept(syscall.Conn) {}

func peek(*net.TCPConn, []byte) int { return 0 }
