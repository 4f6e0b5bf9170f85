package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// table is what people read, in two forms.
type table struct {
	title string
	note  string // below, may be empty
	head  []string
	rows  [][]string
}

// text writes the table for a terminal.
func (t *table) text(w io.Writer) error {
	_, _ = fmt.Fprintf(w, "%s\n", t.title)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.head}, t.rows...) {
		_, _ = fmt.Fprintf(tw, "  %s\n", strings.Join(row, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if t.note != "" {
		_, _ = fmt.Fprintf(w, "  %s\n", t.note)
	}
	_, err := fmt.Fprintln(w)
	return err
}

// markdown writes the table for a document.
func (t *table) markdown(w io.Writer) error {
	_, _ = fmt.Fprintf(w, "**%s**\n\n", t.title)
	_, _ = fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(t.head, " | "), strings.Repeat(" --- |", len(t.head)))
	for _, row := range t.rows {
		_, _ = fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
	if t.note != "" {
		_, _ = fmt.Fprintf(w, "\n%s\n", t.note)
	}
	_, err := fmt.Fprintln(w)
	return err
}

// number prints three digits that count, and no exponent.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// String prints the median and, if they differ, from where to where.
func (s spread) String() string {
	if number(s.Min) == number(s.Max) {
		return number(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", number(s.Median), number(s.Min), number(s.Max))
}

// thousands prints a number of at least some hundreds in thousands.
func (s spread) thousands() spread {
	return spread{Median: s.Median / 1e3, Min: s.Min / 1e3, Max: s.Max / 1e3}
}

// megabytes prints bytes.
func megabytes(bytes int64) string { return number(float64(bytes) / 1e6) }

// milliseconds prints nanoseconds.
func milliseconds(ns int64) string { return number(float64(ns) / 1e6) }
