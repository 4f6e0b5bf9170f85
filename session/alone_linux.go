package session

import "github.com/sluice-push/sluice/internal/buffer"

// pourAloneLocked does what pourLocked does where one write to a socket will do, and otherwise nothing. Nearly every answer is written here.
// Between this call and the driver there are as few functions as can be: on its way out of a system call the kernel may have the processor
// forget where functions return to, and then each of those returns is a wrong guess (5 to 10 ns on an AMD EPYC).
func (s *Session) pourAloneLocked() {
	g := s.gathered
	if g == nil || len(g.Scratch) == 0 || len(g.Scratch) > gatherBytes || s.pen != penFree || s.q != nil || s.phase.Load() != phaseOpen {
		return
	}
	fd := uintptr(s.fd)
	if !s.isBare() {
		if !g.Inside || s.own == nil || s.own.raw.s == nil {
			return
		}
		fd = uintptr(s.own.raw.peer.FD)
	}
	s.pen = penWriting
	s.mu.Unlock()
	n, err := buffer.Result(buffer.Send(fd, g.Scratch))
	s.mu.Lock()
	isAll := n == len(g.Scratch)
	if s.smoothLocked(isAll, n, err) && s.corked { // if not, the cork was drawn meanwhile, and the batch is to be given back
		g.Forget()
		return
	}
	s.pouredLocked(g, n, isAll, s.phase.Load() != phaseClosed)
}
