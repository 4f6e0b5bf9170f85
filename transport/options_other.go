//go:build !linux

package transport

import sock "github.com/sluice-push/sluice/internal/socket"

// socketOptions says that the options are set on sockets. Here they are set on connections: what these inherit differs between systems.
const socketOptions = false

func (*Options) each(bool) []sock.Option { return nil }

func (*Options) setInherited(int) error { return nil }

func (*Options) setDialing(int, bool) error { return nil }
