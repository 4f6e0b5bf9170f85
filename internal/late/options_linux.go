package late

import (
	"net"
	"os"
	"syscall"
	"time"
)

// The options of package net's connections that package socket sets.

// SetNoDelay switches Nagle's algorithm off, or on.
func (c *Conn) SetNoDelay(noDelay bool) error {
	return c.set(syscall.IPPROTO_TCP, syscall.TCP_NODELAY, number(noDelay))
}

// SetWriteBuffer sets what the kernel may hold of what is written.
func (c *Conn) SetWriteBuffer(bytes int) error {
	return c.set(syscall.SOL_SOCKET, syscall.SO_SNDBUF, bytes)
}

// SetKeepAliveConfig is that of *net.TCPConn, but for times that are not positive: these stay as they are.
func (c *Conn) SetKeepAliveConfig(k net.KeepAliveConfig) error {
	err := c.set(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, number(k.Enable))
	for _, o := range []struct{ name, value int }{
		{syscall.TCP_KEEPIDLE, seconds(k.Idle)}, {syscall.TCP_KEEPINTVL, seconds(k.Interval)}, {syscall.TCP_KEEPCNT, k.Count},
	} {
		if err == nil && o.value > 0 {
			err = c.set(syscall.IPPROTO_TCP, o.name, o.value)
		}
	}
	return err
}

func (c *Conn) set(level, name, value int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed("set", c.controlLocked(func(fd uintptr) error {
		return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), level, name, value))
	}))
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
