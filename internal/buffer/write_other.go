//go:build !linux

package buffer

// call is nothing here: elsewhere than on Linux batches are written by package net.
type call struct{}

func (*call) bind(*Batch) {}
