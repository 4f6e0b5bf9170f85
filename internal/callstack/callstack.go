// Package callstack reports whether given functions are on the calling goroutine's stack. Goroutines in Go have no identity, so the stack is
// the only way to recognize one.
package callstack

import (
	"runtime"
	"strings"
)

// Within reports whether the calling goroutine is in one of the functions called roots, or in a literal in one. Roots are names within a
// package whose import path is pkg, as runtime.Frame has them: "run", "(*Session).run".
func Within(pkg string, roots []string) bool {
	var pcs [64]uintptr
	for skip := 0; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		frames := runtime.CallersFrames(pcs[:n])
		for more := n > 0; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if name, ok := strings.CutPrefix(f.Function, pkg+"."); ok && isRoot(name, roots) {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}

// isRoot reports whether a function is a root, or a literal in one.
func isRoot(name string, roots []string) bool {
	for _, root := range roots {
		if rest, ok := strings.CutPrefix(name, root); ok && (rest == "" || rest[0] == '.') {
			return true
		}
	}
	return false
}
