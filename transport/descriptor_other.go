//go:build !linux

package transport

import (
	"errors"
	"net"
)

// haveDescriptors says that connections can be had without a net.Conn: not here.
const haveDescriptors = false

type acceptCall struct{}

func (*Listener) acceptDescriptor() (Descriptor, error) { return Descriptor{}, errors.ErrUnsupported }

func detach(net.Conn) (Descriptor, bool, error) { return Descriptor{}, false, nil }

func attach(Descriptor) (net.Conn, error) { return nil, errors.ErrUnsupported }

func closeDescriptor(int) error { return errors.ErrUnsupported }
