package main

// Window is a window.
type Window struct{ w window }

func NewWindow(messages uint64, inFlight int) *Window { return &Window{newWindow(messages, inFlight)} }

func (w *Window) Take(now int64) (uint64, bool)   { return w.w.take(now) }
func (w *Window) Answer(id uint64) (int64, error) { return w.w.answer(id) }
func (w *Window) Answered() uint64                { return w.w.answered() }
func (w *Window) Pending() uint64                 { return w.w.pending() }
func (w *Window) Complete() bool                  { return w.w.complete() }
