//go:build !linux

package transport

import (
	"errors"
	"syscall"
)

// mmsg is nothing here: datagrams are read and written one by one.
type mmsg struct{}

func newMMsg(bool, bool) *mmsg { return nil }

func (*mmsg) read(syscall.RawConn, []Packet) (int, error) { return 0, errors.ErrUnsupported }

func (*mmsg) write(syscall.RawConn, []Packet, bool) (int, error) { return 0, errors.ErrUnsupported }

// kernelDrops is for Linux only.
func kernelDrops(int) (uint32, bool) { return 0, false }

// onlyJoined is for Linux only: other systems do not mix up the groups of different sockets.
func onlyJoined(int, bool) {}

// The options that Linux has.
const (
	ipMTUDiscover   = unsupported
	ipv6MTUDiscover = unsupported
	pmtuDiscDo      = 0
)
