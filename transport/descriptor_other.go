//go:build !linux

package transport

import (
	"errors"
	"net"
)

// haveDescriptors says that this system cannot accept connections without a net.Conn.
const haveDescriptors = false

type acceptCall struct{}

func (*Listener) acceptDescriptor() (Descriptor, error) { return Descriptor{}, errors.ErrUnsupported }

func (*Listener) acceptNow(int) (Descriptor, bool, error) {
	return Descriptor{}, false, errors.ErrUnsupported
}

func detach(net.Conn) (Descriptor, bool, error) { return Descriptor{}, false, nil }

func duplicate(net.Conn) (Descriptor, bool, error) { return Descriptor{}, false, nil }

func attach(Descriptor) (net.Conn, error) { return nil, errors.ErrUnsupported }

func closeDescriptor(int) error { return errors.ErrUnsupported }
