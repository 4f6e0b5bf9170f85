//go:build !linux

package main_test

const canSplice = false
