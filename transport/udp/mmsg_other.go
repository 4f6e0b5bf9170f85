//go:build !linux

package udp

import (
	"errors"
	"syscall"
)

// mmsg is unused: on this system datagrams are read and written one by one.
type mmsg struct{}

func newMMsg(bool, bool) *mmsg { return nil }

func (*mmsg) read(syscall.RawConn, []Packet) (int, error) { return 0, errors.ErrUnsupported }

func (*mmsg) write(syscall.RawConn, []Packet, bool) (int, error) { return 0, errors.ErrUnsupported }

// kernelDrops works on Linux only.
func kernelDrops(int) (uint32, bool) { return 0, false }

// onlyJoined is for Linux only: other systems deliver no datagrams of groups that only other sockets have joined.
func onlyJoined(int, bool) {}

// Options of Linux.
const (
	ipMTUDiscover   = unsupported
	ipv6MTUDiscover = unsupported
	pmtuDiscDo      = 0
)
