package main

import (
	"context"
	"strings"
	"testing"
)

// TestRun measures two transports for a moment, with few clients.
func TestRun(t *testing.T) {
	loads["few"] = []string{"--shape", "one", "--clients", "100", "--rate", "300", "--warmup", "100ms", "--settle", "100ms"}
	t.Cleanup(func() { delete(loads, "few") })
	var out strings.Builder
	err := run(context.Background(), []string{"-loads", "few", "-rounds", "1", "-duration", "500ms", "-transports", "websocket/json,tcp/protobuf"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n| websocket/json | ", "| 1.00 |", "\n| tcp/protobuf | "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if err := run(context.Background(), []string{"-loads", "absent"}, &out); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("a load that does not exist: %v", err)
	}
}

// TestSum: values of one metric are added, whatever the labels; others are left alone.
func TestSum(t *testing.T) {
	page := []byte("# TYPE a_total counter\na_total{x=\"} 5\"} 2\na_total{x=\"b\"} 3.5\na_total_created 9\nab_total 7\na_total\n")
	if got := sum(page, "a_total"); got != 5.5 {
		t.Errorf("sum = %v, want 5.5", got)
	}
}

// TestMedian: the middle of an odd number of values, or between the two in the middle.
func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		var rs []result
		for _, v := range tt.values {
			rs = append(rs, result{bytes: v})
		}
		if got := median(rs, func(r result) float64 { return r.bytes }); got != tt.want {
			t.Errorf("median of %v = %v, want %v", tt.values, got, tt.want)
		}
	}
}
