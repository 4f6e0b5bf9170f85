package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// table writes the summary of a cell for people.
func table(w io.Writer, c cell, rows []summary) error {
	_, _ = fmt.Fprintf(w, "%s: %s\n", c.name, c.title)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "server\tmsgs/s\tCPU s/1M\t(min–max)\t×C\t(min–max)\tp50 ms\tp99\tp99.9\tmax\t(min–max)\tallocs/msg\t")
	for _, r := range rows {
		_, _ = fmt.Fprintf(t, "%s\t%.0f\t%.2f\t%.2f–%.2f\t%.2f\t%.2f–%.2f\t%.3g\t%.3g\t%.3g\t%.3g\t%.3g–%.3g\t%.3f\t\n",
			r.Server, r.Rate.Median, r.CPU.Median, r.CPU.Min, r.CPU.Max, r.Ratio.Median, r.Ratio.Min, r.Ratio.Max,
			r.P50.Median, r.P99.Median, r.P999.Median, r.Max.Median, r.Max.Min, r.Max.Max, r.Allocs.Median)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}
