package buffer_test

import (
	"math"
	"slices"
	"testing"

	"github.com/sluice-push/sluice/internal/buffer"
)

// A report counts for the frames whose calls it names, also where the numbers wrap around.
func TestReported(t *testing.T) {
	const top = math.MaxUint32
	tests := []struct {
		name        string
		begin       []uint32 // the first calls of the waiting frames
		first, last uint32
		want        []uint32
	}{
		{"one call", []uint32{0, 3}, 3, 3, []uint32{0, 1}},
		{"over two frames", []uint32{0, 3}, 1, 4, []uint32{2, 2}},
		{"over the largest number", []uint32{top - 1, 1}, top - 1, 2, []uint32{3, 2}},
		{"of a frame that is gone", []uint32{10}, 5, 10, []uint32{1}},
		{"nobody waits", nil, 5, 6, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := buffer.Reported(tt.begin, tt.first, tt.last); !slices.Equal(got, tt.want) {
				t.Errorf("reported of the frames: %d, want %d", got, tt.want)
			}
		})
	}
}
