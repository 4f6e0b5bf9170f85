//go:build !unix

package reserve

import "errors"

// Possible says that there are descriptors to have and to give up: not here.
const Possible = false

// Reserve is nothing: these systems have no such limit, or package net shows no descriptors.
type Reserve struct{}

func (*Reserve) Fill() {}

func (*Reserve) Spend(int) error { return errors.ErrUnsupported }

func (*Reserve) Close() {}
