//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package transport

func setBacklog(int, int) error { return nil }

func setMode(int, uint32) {}
