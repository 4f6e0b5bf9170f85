//go:build !unix

package workerpool_test

import (
	"runtime"
	"time"
)

var processStart = time.Now()

// cpuTime returns about the processor time that this process has used, if it has kept all processors busy.
func cpuTime() time.Duration { return time.Since(processStart) * time.Duration(runtime.GOMAXPROCS(0)) }
