//go:build unix

package run

import (
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
)

// collectOnSignal collects garbage at each SIGUSR1, gives memory back to the system, and says so, until the program ends. Signals
// that come while it is ending do nothing.
func collectOnSignal(stop <-chan struct{}) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-asked:
			}
			before := held()
			debug.FreeOSMemory()
			Say("memory returned: %d KiB held, %d KiB before", held()>>10, before>>10)
		}
	}()
}

// held is how many bytes of memory the program has from the system.
func held() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased
}
