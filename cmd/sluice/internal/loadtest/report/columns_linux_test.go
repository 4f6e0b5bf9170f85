package report_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/report"
)

// control calls ioctl on a file.
func control(t *testing.T, f *os.File, request uintptr, argument unsafe.Pointer) {
	t.Helper()
	conn, err := f.SyscallConn()
	must(t, err)
	var errno syscall.Errno
	must(t, conn.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(argument))
	}))
	if errno != 0 {
		t.Fatal(errno)
	}
}

// openTerminal opens a pseudoterminal (pts(4)). It returns the master side, and the terminal for programs.
func openTerminal(t *testing.T) (outer, inner *os.File) {
	t.Helper()
	outer, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { _ = outer.Close() })
	var locked, number int32
	control(t, outer, syscall.TIOCSPTLCK, unsafe.Pointer(&locked))
	control(t, outer, syscall.TIOCGPTN, unsafe.Pointer(&number))
	inner, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { _ = inner.Close() })
	return outer, inner
}

// Width returns the current width of a real terminal, also after a change, and the display has this width.
func TestWidthOfTerminal(t *testing.T) {
	outer, inner := openTerminal(t)
	width := report.Width(inner)
	if width == nil {
		t.Fatal("it is not taken for a terminal")
	}
	if n := width(); n != 80 {
		t.Errorf("a terminal that does not say: %d columns", n)
	}
	for _, columns := range []uint16{40, 132} {
		size := struct{ rows, columns, width, height uint16 }{24, columns, 0, 0}
		control(t, outer, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
		if n := width(); n != int(columns) {
			t.Errorf("%d columns, want %d", n, columns)
		}
	}
	d := report.NewDisplay(inner, perfect().Spec, &report.DisplayOptions{Width: width})
	d.Show(loadtest.Progress{Phase: loadtest.Connecting, Clients: 1, Target: 2})
	d.Close()
	must(t, outer.SetReadDeadline(time.Now().Add(30*time.Second)))
	var seen strings.Builder
	for buf := make([]byte, 4096); !strings.HasSuffix(seen.String(), "\x1b[?1049l"); {
		n, err := outer.Read(buf)
		must(t, err)
		seen.Write(buf[:n])
	}
	if bar := strings.Count(seen.String(), "█") + strings.Count(seen.String(), "░"); bar != 132-12-28 {
		t.Errorf("a bar of %d:\n%s", bar, seen.String())
	}
}
