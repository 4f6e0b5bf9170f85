package report

import (
	"io"
	"os"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
)

// plainEvery is the time between two lines if the output is no terminal.
const plainEvery = 2 * time.Second

// Control sequences for terminals, from ECMA-48 and the common private modes of xterm.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the alternate screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	toTop       = "\x1b[H"
	restOfLine  = "\x1b[K"
	restBelow   = "\x1b[J"
	bold        = "\x1b[1m"
	red         = "\x1b[31m"
	plainColour = "\x1b[0m"
)

// DisplayOptions are the options of a Display.
type DisplayOptions struct {
	// Width returns the current number of columns of the terminal. If it is set, the display is a screen that is redrawn. If it is nil, the
	// display writes lines, for an output that is no terminal.
	Width func() int
}

// Display shows a run that is under way. On a terminal it uses the alternate screen, which Close leaves. On other outputs it writes a line
// every two seconds and at each new phase. It reads no clock, but uses the times in the progress. Its methods must not be called concurrently.
type Display struct {
	w      io.Writer
	width  func() int
	view   view
	phase  loadtest.Phase
	next   time.Duration // elapsed time of the next plain line
	open   bool          // the terminal shows the alternate screen
	closed bool
}

// NewDisplay returns a display of a run of spec on w. Options may be nil. The display ignores errors of w, so that they do not end the run.
func NewDisplay(w io.Writer, spec loadtest.Spec, o *DisplayOptions) *Display {
	d := &Display{w: w, view: view{spec: spec}}
	if o != nil {
		d.width = o.Width
	}
	return d
}

// Show shows p. After Close it does nothing.
func (d *Display) Show(p loadtest.Progress) {
	if d.closed {
		return
	}
	d.view.add(p)
	if d.width != nil {
		d.draw()
		return
	}
	if p.Phase != d.phase || p.Elapsed >= d.next {
		d.phase = p.Phase
		d.next = p.Elapsed - p.Elapsed%plainEvery + plainEvery
		d.write(d.view.line() + "\n")
	}
}

// draw writes the screen with a single Write, so that it does not flicker.
func (d *Display) draw() {
	var text []byte
	if !d.open {
		d.open = true
		text = append(text, enterScreen...)
	}
	text = append(text, toTop...)
	for _, l := range d.view.screen(d.width()) {
		text = append(text, l.style...)
		text = append(text, l.text...)
		if l.style != "" {
			text = append(text, plainColour...)
		}
		text = append(text, restOfLine+"\r\n"...)
	}
	d.write(string(append(text, restBelow...)))
}

// Close restores the terminal. Further calls do nothing.
func (d *Display) Close() {
	if d.open && !d.closed {
		d.write(leaveScreen)
	}
	d.closed = true
}

func (d *Display) write(s string) { _, _ = io.WriteString(d.w, s) } // see NewDisplay

// unknownWidth is the assumed width of a terminal that reports none.
const unknownWidth = 80

// Width returns a function for [DisplayOptions] that returns the number of columns of the terminal f, or 80 if f reports none. Width returns nil
// if f is no terminal, or if the system is neither Linux nor macOS.
func Width(f *os.File) func() int {
	if _, terminal := columns(f); !terminal {
		return nil
	}
	return func() int {
		if n, _ := columns(f); n > 0 {
			return n
		}
		return unknownWidth
	}
}
