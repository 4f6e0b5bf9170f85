package wire

import (
	"encoding/binary"
	"math/bits"
)

// unmask applies the masking key to b in place (RFC 6455 §5.3). Applying it twice restores b. The key is in little-endian order: its lowest byte
// belongs to b[0].
func unmask(b []byte, key uint32) {
	unmaskWords(b[unmaskBlocks(b, key):], key)
}

// unmaskWords is unmask with steps of eight bytes, four in each round of the first loop.
func unmaskWords(b []byte, key uint32) {
	k := uint64(key)<<32 | uint64(key)
	for len(b) >= 32 {
		w := b[:32]
		binary.LittleEndian.PutUint64(w[0:], binary.LittleEndian.Uint64(w[0:])^k)
		binary.LittleEndian.PutUint64(w[8:], binary.LittleEndian.Uint64(w[8:])^k)
		binary.LittleEndian.PutUint64(w[16:], binary.LittleEndian.Uint64(w[16:])^k)
		binary.LittleEndian.PutUint64(w[24:], binary.LittleEndian.Uint64(w[24:])^k)
		b = b[32:]
	}
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^k)
		b = b[8:]
	}
	for i := range b {
		b[i] ^= byte(k >> (8 * i))
	}
}

// keyAt returns the key for the payload from byte pos on.
func keyAt(key uint32, pos int) uint32 { return bits.RotateLeft32(key, -8*(pos&3)) }
