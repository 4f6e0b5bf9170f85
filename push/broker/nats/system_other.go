//go:build !linux

package nats

import "os"

// On systems other than Linux, a replacement of the data folder by a copy goes unnoticed, and every end that was not clean counts as a stop of
// the machine.

func lockFile(*os.File) error { return nil }

func unlockFile(*os.File) error { return nil }

func changedAt(*os.File) string { return "" }

func bootID() string { return newNonce() }

func freeIn(string) int64 { return -1 }
