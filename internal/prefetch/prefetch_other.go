//go:build !amd64 && !arm64

package prefetch

// Value does nothing here.
func Value(any) {}

// Wide does nothing here.
func Wide(any) {}
