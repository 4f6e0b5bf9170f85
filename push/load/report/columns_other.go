//go:build !linux && !darwin

package report

import "os"

// columns is for systems whose terminals are not drawn on.
func columns(*os.File) (n int, terminal bool) { return 0, false }
