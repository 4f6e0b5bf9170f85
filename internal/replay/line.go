package replay

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// plainEvery is the time between two lines where the output is no terminal.
const plainEvery = 5 * time.Second

// ProgressLine writes the progress of a replay for people to read: on a terminal as one line that is written over and over,
// elsewhere as a line every five seconds. It knows no clock but the times in what it shows. Give its Show to [Options]; it may not
// be called concurrently.
type ProgressLine struct {
	w        io.Writer
	terminal bool
	next     time.Duration // elapsed time of the next plain line
}

// NewProgressLine returns a progress line on w. Errors of w are ignored: a replay does not end because nobody looks.
func NewProgressLine(w io.Writer, terminal bool) *ProgressLine {
	return &ProgressLine{w: w, terminal: terminal, next: plainEvery}
}

// IsTerminal reports whether f looks like a terminal: a character device.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Show writes p. With p.Done it ends the line.
func (l *ProgressLine) Show(p Progress) {
	text := p.text()
	switch {
	case l.terminal:
		text = "\r" + text + "\x1b[K" // back to the start, and away with what is left of a longer line
		if p.Done {
			text += "\n"
		}
	case p.Done || p.Elapsed >= l.next:
		text += "\n"
		l.next = p.Elapsed - p.Elapsed%plainEvery + plainEvery
	default:
		return
	}
	_, _ = io.WriteString(l.w, text) // see NewProgressLine
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
	if p.Trouble != nil {
		add("trying again: %v", p.Trouble)
	}
	return strings.Join(parts, "  ")
}
