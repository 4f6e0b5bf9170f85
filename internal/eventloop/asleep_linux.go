package eventloop

import (
	"bytes"
	"strconv"
	"syscall"
	"unsafe"
)

// asleep reports whether a thread of this process waits for something other than a processor, as proc(5) tells. A thread that is runnable but not
// running is not asleep. If nothing can be found out the answer is true.
func asleep(thread int) bool {
	var path [64]byte
	name := append(strconv.AppendInt(append(path[:0], "/proc/self/task/"...), int64(thread), 10), "/stat\x00"...)
	fd, _, errno := syscall.RawSyscall6(syscall.SYS_OPENAT, 0, uintptr(unsafe.Pointer(&name[0])), syscall.O_RDONLY|syscall.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return true
	}
	var stat [128]byte
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&stat[0])), uintptr(len(stat)))
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, fd, 0, 0)
	// The state is the first field after the name, which stands in parentheses and may contain any character.
	read := stat[:min(n, uintptr(len(stat)))]
	end := bytes.LastIndexByte(read, ')')
	if errno != 0 || end < 0 || end+2 >= len(read) {
		return true
	}
	return read[end+2] != 'R'
}
