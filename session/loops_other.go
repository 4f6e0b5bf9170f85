//go:build !linux

package session

import "net"

// seat is nothing here: there are no loops elsewhere than on Linux.
type seat struct{ inline bool }

// loops are none here.
type loops struct{}

func (*loops) seat(*Session, net.Conn) bool { return false }
func (*loops) look() bool                   { return false }
func (*loops) busy() bool                   { return false }
func (*loops) stop()                        {}
func (*loops) wait()                        {}
