//go:build !linux

package transport

import (
	"errors"
	"net"
)

// haveDescriptors says that connections can be had without a net.Conn: not here.
const haveDescriptors = false

type acceptCall struct{}

type late struct{ *Listener }

func (*Listener) acceptDescriptor() (Descriptor, error) { return Descriptor{}, errors.ErrUnsupported }

func (*Listener) acceptNow(int) (Descriptor, bool, error) {
	return Descriptor{}, false, errors.ErrUnsupported
}

func detach(net.Conn) (Descriptor, bool, error) { return Descriptor{}, false, nil }

func duplicate(net.Conn) (Descriptor, bool, error) { return Descriptor{}, false, nil }

func attach(Descriptor) (net.Conn, error) { return nil, errors.ErrUnsupported }

func closeDescriptor(int) error { return errors.ErrUnsupported }
