package replay

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// plainEvery is the time between two lines if the output is not a terminal.
const plainEvery = 5 * time.Second

// ProgressLine prints the progress of a replay: on a terminal as one line that is overwritten, elsewhere as a new line every five seconds. It
// uses the times in Progress as its clock. Its method Show is for [Options.Progress], and must not be called concurrently.
type ProgressLine struct {
	w        io.Writer
	terminal bool
	next     time.Duration // elapsed time at which the next plain line is due
}

// NewProgressLine returns a progress line on w. It ignores errors of w, because a failed display must not end a replay.
func NewProgressLine(w io.Writer, terminal bool) *ProgressLine {
	return &ProgressLine{w: w, terminal: terminal, next: plainEvery}
}

// IsTerminal reports whether f is a character device, which is taken for a terminal.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Show prints p. If p.Done is set, it ends the line.
func (l *ProgressLine) Show(p Progress) {
	text := p.text()
	switch {
	case l.terminal:
		text = "\r" + text + "\x1b[K" // back to the start of the line; the escape sequence erases the rest of a longer line
		if p.Done {
			text += "\n"
		}
	case p.Done || p.Elapsed >= l.next:
		text += "\n"
		l.next = p.Elapsed - p.Elapsed%plainEvery + plainEvery
	default:
		return
	}
	_, _ = io.WriteString(l.w, text) // for the ignored error see NewProgressLine
}

func (p Progress) text() string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if p.Fraction >= 0 {
		add("%3d%%", int(p.Fraction*100))
	}
	add("%s published", thousands(p.Published))
	add("%s/s", thousands(int64(p.Rate)))
	if p.Position.Frame > 0 {
		add("at %s", time.Unix(0, p.Position.Time).UTC().Format(time.DateTime))
	}
	switch {
	case p.Done:
		add("in %v", round(p.Elapsed))
	case p.Left >= 0:
		add("left %v", round(p.Left))
	}
	if p.Behind >= time.Second && !p.Done {
		add("behind %v", round(p.Behind))
	}
	if p.Skipped > 0 {
		add("%s without symbol", thousands(p.Skipped))
	}
	if p.Retried > 0 {
		add("%s retried", thousands(p.Retried))
	}
	if p.RetryError != nil {
		add("retrying: %v", p.RetryError)
	}
	return strings.Join(parts, "  ")
}
