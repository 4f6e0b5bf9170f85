//go:build !unix

package run

// collectOnSignal does nothing: there is no SIGUSR1.
func collectOnSignal(<-chan struct{}) {}
