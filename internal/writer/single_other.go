//go:build !linux

package writer

// sendTo is never called: no Writer has a socket.
func sendTo(int32, []byte) (int, error) { return 0, nil }

func (w *Writer) flushSingle(int32) {}
