//go:build !linux

package transport

import "github.com/sluice-push/sluice/internal/sockopt"

// socketOptions says that the options are set on connections instead of sockets, because systems differ in which options connections inherit.
const socketOptions = false

func (*Options) each(bool) []sockopt.Option { return nil }

func (*Options) setInherited(int) error { return nil }

func (*Options) setDialing(int, bool) error { return nil }
