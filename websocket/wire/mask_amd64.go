package wire

// blockSize is the number of bytes that xorBlocks handles in one round: four SSE2 registers, which every amd64 processor has.
const blockSize = 64

// unmaskBlocks is unmask for the whole blocks at the start of b. It returns the number of bytes in these blocks. From 1 KiB on it is about twice
// as fast as unmaskWords.
func unmaskBlocks(b []byte, key uint32) int {
	n := len(b) &^ (blockSize - 1)
	if n > 0 {
		xorBlocks(&b[0], n, key)
	}
	return n
}

// xorBlocks applies the key to n bytes; n is a positive multiple of blockSize.
//
//go:noescape
func xorBlocks(p *byte, n int, key uint32)
