//go:build !linux

package transport

// socketOptions says that the options are set on sockets. Here they are set on connections: what these inherit differs between systems.
const socketOptions = false

// option is nothing here.
type option struct{}

func (*Options) each(bool) []option { return nil }

func (*Options) setInherited(int) error { return nil }

func (*Options) setDialing(int, bool) error { return nil }
