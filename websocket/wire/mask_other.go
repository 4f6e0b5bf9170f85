//go:build !amd64

package wire

// unmaskBlocks handles no bytes, and unmaskWords handles all of them.
func unmaskBlocks([]byte, uint32) int { return 0 }
