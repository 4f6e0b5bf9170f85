package nats

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// lockFile locks a file for this process, until it is closed.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// unlockFile unlocks a file. Closing is not enough while a child process that is just starting still has the descriptor.
func unlockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

// changedAt returns the inode and the change time of a file. No program can set that time.
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

// bootID returns an ID that changes each time the machine starts.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// freeIn returns how many bytes are free for this process in the file system of a folder, −1 if that is not known.
func freeIn(dir string) int64 {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return -1
	}
	return int64(s.Bavail) * int64(s.Bsize) //nolint:unconvert // not 64 bits wide everywhere
}
