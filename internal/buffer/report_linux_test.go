package buffer_test

import (
	"math"
	"testing"

	"github.com/sluice-push/sluice/internal/buffer"
)

// A report counts for the frames whose calls it names, also where the numbers begin again.
func TestReportCount(t *testing.T) {
	const top = math.MaxUint32
	tests := []struct {
		name   string
		firsts []uint32 // of the frames that wait
		report buffer.Report
		want   []uint32
	}{
		{"one call", []uint32{0, 3}, buffer.Report{First: 3, Last: 3}, []uint32{0, 1}},
		{"over two frames", []uint32{0, 3}, buffer.Report{First: 1, Last: 4}, []uint32{2, 2}},
		{"over the largest number", []uint32{top - 1, 1}, buffer.Report{First: top - 1, Last: 2}, []uint32{3, 2}},
		{"of a frame that is gone", []uint32{10}, buffer.Report{First: 5, Last: 10}, []uint32{1}},
		{"nobody waits", nil, buffer.Report{First: 5, Last: 6}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var waiting []*buffer.Large
			for _, first := range tt.firsts {
				waiting = append(waiting, &buffer.Large{First: first})
			}
			tt.report.Count(waiting)
			for i, l := range waiting {
				if l.Acked != tt.want[i] {
					t.Errorf("%d calls of frame %d are reported, want %d", l.Acked, i, tt.want[i])
				}
			}
		})
	}
}
