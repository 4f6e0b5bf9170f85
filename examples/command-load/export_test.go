package main

import "time"

// Window is a window.
type Window struct{ w window }

func NewWindow(messages uint64, inFlight int) *Window { return &Window{newWindow(messages, inFlight)} }

func (w *Window) Take(now int64) (uint64, bool)   { return w.w.take(now) }
func (w *Window) Answer(id uint64) (int64, error) { return w.w.answer(id) }
func (w *Window) Answered() uint64                { return w.w.answered() }
func (w *Window) Pending() uint64                 { return w.w.pending() }
func (w *Window) Complete() bool                  { return w.w.complete() }

// Quantile counts durations and returns what a histogram says of them.
func Quantile(part float64, all ...time.Duration) time.Duration {
	h := new(histogram)
	before := h.read()
	for _, d := range all {
		h.add(d)
	}
	return h.read().since(before).quantile(part)
}

// Short is short.
func Short(d time.Duration) string { return short(d) }
