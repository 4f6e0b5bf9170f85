//go:build !linux

package buffer

// call is empty: on systems other than Linux package net writes batches.
type call struct{}

func (*call) bind(*Batch) {}
