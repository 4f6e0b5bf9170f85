//go:build !unix

package sockopt

import "errors"

// HasSpareFD reports whether SpareFD works on this system: not here.
const HasSpareFD = false

// SpareFD does nothing: these systems have no such limit, or package net does not expose descriptors.
type SpareFD struct{}

func (*SpareFD) Fill() {}

func (*SpareFD) AcceptAndClose(int) error { return errors.ErrUnsupported }

func (*SpareFD) Close() {}
