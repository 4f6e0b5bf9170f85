package report

import (
	"slices"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
)

// stallTable returns a table with the figures of the server and of the clients that read, before, during and after a stall of other clients. It is
// "" if the run has no limited stall. Memory is that at the end of each part. Latencies and deliveries are medians over the seconds of the part.
func stallTable(r *loadtest.Result) string {
	if r.Spec.StallFor == 0 || len(r.Moments) == 0 {
		return ""
	}
	begin := (r.Spec.Duration - r.Spec.StallFor) / 2
	end := begin + r.Spec.StallFor
	rows := [][]string{{"", "server's memory", "kernel memory of sockets", "p50", "p99", "delivered per second"}}
	from := 0.0
	for _, part := range []struct {
		name string
		to   float64
	}{{"before the stall", begin.Seconds()}, {"during the stall", end.Seconds()}, {"after the stall", r.Moments[len(r.Moments)-1].Second}} {
		var within []loadtest.Moment
		for _, m := range r.Moments {
			if m.Second > from && m.Second <= part.to {
				within = append(within, m)
			}
		}
		from = part.to
		if len(within) == 0 {
			continue
		}
		last := within[len(within)-1]
		rows = append(rows, []string{
			part.name, binary(last.Memory), binary(last.Sockets),
			milliseconds(median(within, func(m *loadtest.Moment) float64 { return m.P50 })),
			milliseconds(median(within, func(m *loadtest.Moment) float64 { return m.P99 })),
			significant(median(within, func(m *loadtest.Moment) float64 { return float64(m.Delivered) })),
		})
	}
	return table(rows) + "\n"
}

// median returns the median of the values of moments, or the lower one of two. There is at least one moment.
func median(moments []loadtest.Moment, value func(*loadtest.Moment) float64) float64 {
	values := make([]float64, len(moments))
	for i := range moments {
		values[i] = value(&moments[i])
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
