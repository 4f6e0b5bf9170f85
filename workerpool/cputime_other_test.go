//go:build !unix

package workerpool_test

import (
	"runtime"
	"time"
)

var processStart = time.Now()

// cpuTime returns an estimate of the processor time that this process has used. It assumes that all processors have been busy.
func cpuTime() time.Duration { return time.Since(processStart) * time.Duration(runtime.GOMAXPROCS(0)) }
