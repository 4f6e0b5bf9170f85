package report

import (
	"slices"

	"github.com/sluice-push/sluice/push/load"
)

// stallTable says how the server and the clients that read fared before others stopped reading, meanwhile and afterwards, where that is a part of
// the run. Memory is that at the end of each time; latencies are medians of those of its seconds.
func stallTable(r *load.Result) string {
	if r.Spec.StallFor == 0 || len(r.Moments) == 0 {
		return ""
	}
	begin := (r.Spec.Duration - r.Spec.StallFor) / 2
	end := begin + r.Spec.StallFor
	rows := [][]string{{"", "server's memory", "kernel's for sockets", "p50", "p99", "delivered a second"}}
	from := 0.0
	for _, part := range []struct {
		name string
		to   float64
	}{{"before the stall", begin.Seconds()}, {"while they stall", end.Seconds()}, {"after it", r.Moments[len(r.Moments)-1].Second}} {
		var within []load.Moment
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
			milliseconds(median(within, func(m *load.Moment) float64 { return m.P50 })),
			milliseconds(median(within, func(m *load.Moment) float64 { return m.P99 })),
			significant(median(within, func(m *load.Moment) float64 { return float64(m.Delivered) })),
		})
	}
	return table(rows) + "\n"
}

// median is the middle of the values that moments have, the lower one of two.
func median(moments []load.Moment, value func(*load.Moment) float64) float64 {
	values := make([]float64, len(moments))
	for i := range moments {
		values[i] = value(&moments[i])
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
