package wire

// blockSize is how many bytes xorBlocks handles a turn: four registers of SSE2, which every amd64 processor has.
const blockSize = 64

// unmaskBlocks is unmask for as many whole blocks as b begins with. It returns how many bytes these are. 1 KiB and more take half of the time that
// unmaskWords takes.
func unmaskBlocks(b []byte, key uint32) int {
	n := len(b) &^ (blockSize - 1)
	if n > 0 {
		xorBlocks(&b[0], n, key)
	}
	return n
}

// xorBlocks applies the key to n bytes, a multiple of blockSize and more than none.
//
//go:noescape
func xorBlocks(p *byte, n int, key uint32)
