package gzipheader_test

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/internal/gzipheader"
)

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// The optional fields of a gzip header are passed over; a header that is incomplete, of another method or with reserved flags is refused.
func TestLen(t *testing.T) {
	for in, want := range map[string]int{
		"1f8b0800 00000000 00ff": 10, "1f8b0800 00000000 00": 0, "1f8c0800 00000000 00ff": 0, "1f8b0900 00000000 00ff": 0,
		"1f8b0820 00000000 00ff": 0, "1f8b0801 00000000 00ff": 10, // reserved; text
		"1f8b0804 00000000 00ff 0200 4141": 14, "1f8b0804 00000000 00ff 0300 4141": 0, "1f8b0804 00000000 00ff 03": 0,
		"1f8b0808 00000000 00ff 6100": 12, "1f8b0808 00000000 00ff 61": 0,
		"1f8b0818 00000000 00ff 6100 626200": 15, "1f8b0818 00000000 00ff 6100 6262": 0,
		"1f8b080c 00000000 00ff ffff 00": 0,
		"1f8b0802 00000000 00ff 9f1d":    0, "1f8b0802 00000000 00ff 9f": 0,
	} {
		if got := gzipheader.Len(unhex(in)); got != want {
			t.Errorf("%s: %d, want %d", in, got, want)
		}
	}
	head := unhex("1f8b0802 00000000 00ff")
	if sum := gzipheader.Len(binary.LittleEndian.AppendUint16(head, uint16(crc32.ChecksumIEEE(head)))); sum != 12 {
		t.Errorf("with a checksum: %d", sum)
	}
}
