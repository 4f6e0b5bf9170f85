//go:build !unix

package transport

import "errors"

// havePoller says that a descriptor of the listening socket can wait in the runtime's poller: not here.
const havePoller = false

// reserve is nothing: these systems have no such limit, or package net shows no descriptors.
type reserve struct{}

func (*reserve) fill() {}

func (*reserve) spend(int) error { return errors.ErrUnsupported }

func (*reserve) close() {}
