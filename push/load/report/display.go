package report

import (
	"io"
	"os"
	"time"

	"github.com/sluice-push/sluice/push/load"
)

// plainEvery is the time between two lines where the output is no terminal.
const plainEvery = 2 * time.Second

// What a terminal is told: ECMA-48, and the private modes of xterm that all have.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // another screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	toTop       = "\x1b[H"
	restOfLine  = "\x1b[K"
	restBelow   = "\x1b[J"
	bold        = "\x1b[1m"
	red         = "\x1b[31m"
	plainColour = "\x1b[0m"
)

// DisplayOptions change how a display looks; nil is fine.
type DisplayOptions struct {
	// Width makes the display a screen, which is drawn over and over, and says how many columns the terminal has now. nil: lines, for
	// what is no terminal.
	Width func() int
}

// Display shows a run that is under way: on a terminal as a screen of its own, which Close takes away, elsewhere as a line every two
// seconds and for each new phase. It has no clock but the times in what it shows. Its methods may not be called concurrently.
type Display struct {
	w      io.Writer
	width  func() int
	view   view
	phase  load.Phase
	next   time.Duration // elapsed time of the next plain line
	open   bool          // the terminal shows our screen
	closed bool
}

// NewDisplay returns a display of a run of spec on w. Errors of w are ignored: a run does not end because nobody looks.
func NewDisplay(w io.Writer, spec load.Spec, o *DisplayOptions) *Display {
	d := &Display{w: w, view: view{spec: spec}}
	if o != nil {
		d.width = o.Width
	}
	return d
}

// Show shows p. After Close it does nothing.
func (d *Display) Show(p load.Progress) {
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

// draw writes the screen in one piece, so that it does not flicker.
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

// Close gives the terminal back as it was. Calling it again does nothing.
func (d *Display) Close() {
	if d.open && !d.closed {
		d.write(leaveScreen)
	}
	d.closed = true
}

func (d *Display) write(s string) { _, _ = io.WriteString(d.w, s) } // see NewDisplay

// unknownWidth is the width of a terminal that does not tell it.
const unknownWidth = 80

// Width returns a function for [DisplayOptions] that asks the terminal f how many columns it has, 80 when it does not say; nil when f is no
// terminal, or one of a system on which none is drawn on: that is done on Linux and macOS.
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
