package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table is what people read, in two forms.
type Table struct {
	Title string
	Note  string // below, may be empty
	Head  []string
	Rows  [][]string
}

// Add appends a row.
func (t *Table) Add(row ...string) { t.Rows = append(t.Rows, row) }

// Text writes the table for a terminal.
func (t *Table) Text(w io.Writer) error {
	_, _ = fmt.Fprintf(w, "%s\n", t.Title)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		_, _ = fmt.Fprintf(tw, "  %s\n", strings.Join(row, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if t.Note != "" {
		_, _ = fmt.Fprintf(w, "  %s\n", t.Note)
	}
	_, err := fmt.Fprintln(w)
	return err
}

// Markdown writes the table for a document.
func (t *Table) Markdown(w io.Writer) error {
	_, _ = fmt.Fprintf(w, "**%s**\n\n", t.Title)
	_, _ = fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(t.Head, " | "), strings.Repeat(" --- |", len(t.Head)))
	for _, row := range t.Rows {
		_, _ = fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
	if t.Note != "" {
		_, _ = fmt.Fprintf(w, "\n%s\n", t.Note)
	}
	_, err := fmt.Fprintln(w)
	return err
}
