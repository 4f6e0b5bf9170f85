package writer

import "github.com/sluice-push/sluice/internal/buffer"

// sendTo writes p to a socket that does not block, and returns how many bytes it took.
func sendTo(fd int32, p []byte) (int, error) { return buffer.Result(buffer.Send(uintptr(fd), p)) }

// flushSingle writes the cork if one write to the socket fd is enough, and does nothing otherwise. Nearly every answer is written here. There are
// as few functions as possible between this call and the event loop: when the kernel returns from a system call it may clear the
// processor's return predictions, and then each return costs a wrong guess (5 to 10 ns on an AMD EPYC).
func (w *Writer) flushSingle(fd int32) {
	cork := w.cork
	if fd < 0 || cork == nil || len(cork.Scratch) == 0 || len(cork.Scratch) > maxCork || w.state != Idle || w.q != nil || w.phase != accepting {
		return
	}
	w.state = Writing
	w.Unlock()
	n, err := buffer.Result(buffer.Send(uintptr(fd), cork.Scratch))
	w.Lock()
	isAll := n == len(cork.Scratch)
	if w.finishSingle(isAll, n, err) && w.corked { // if not, the cork has been pulled, and its batch has to be given back
		cork.ClearCorked()
		return
	}
	w.corkFlushed(cork, n, isAll, w.phase != aborted)
}
