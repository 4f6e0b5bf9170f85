package nats

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// lockFile takes a file for this process, until it is closed.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// unlockFile lets go of a file. Closing it is not enough while a process that is just being started has it, too.
func unlockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

// changedAt returns when the file system last changed a file in any way, which no program can set.
func changedAt(f *os.File) string {
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d %d.%09d", s.Ino, s.Ctim.Sec, s.Ctim.Nsec)
}

// bootID names the time since the machine was started.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// freeIn returns how many bytes are free for us where a folder is, −1 when that is not known.
func freeIn(dir string) int64 {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return -1
	}
	return int64(s.Bavail) * int64(s.Bsize) //nolint:unconvert // not everywhere of 64 bits
}
