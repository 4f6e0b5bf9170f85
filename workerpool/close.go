package workerpool

import (
	"context"

	"github.com/sluice-push/sluice/internal/callstack"
)

// An executor ends in steps. Closed: submissions are refused, submitters that wait for room get ErrClosed, and workers end when the queue is
// empty. Dropped: the executor is closed, and its queued tasks have been removed. Gone: the last worker has ended, and so has the last task that
// runs on a submitter's goroutine.

// part is a component that has workers: a pool, a RoundRobin or a Strand.
type part interface {
	stop(drop bool)        // closes the part; with drop, also drops the tasks that have not begun; may be called more than once
	done() <-chan struct{} // a channel that is closed when the part is gone
}

// stop implements part.
func (p *pool) stop(drop bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.line.rejectAll(ErrClosed)
	if drop {
		p.dropped += uint64(p.tasks.clear())
		for _, w := range p.holding {
			p.dropped += uint64(w.local.steal(batchSize, nil))
		}
	}
	for _, w := range p.idle {
		w.wake <- struct{}{} // does not block: only one goroutine at a time may wake a worker
	}
	p.idle = nil
	if p.idleTimer != nil {
		p.idleTimer.Stop()
	}
	p.endLocked()
}

func (p *pool) done() <-chan struct{} { return p.gone }

// endLocked closes gone if the pool is closed and the last worker and the last caller have ended.
func (p *pool) endLocked() {
	if p.closed && !p.ended && p.workers == 0 && p.callers == 0 {
		p.ended = true
		close(p.gone)
	}
}

// closeAll implements Close of an executor that consists of these parts.
func closeAll(parts ...part) {
	for _, p := range parts {
		p.stop(true)
	}
	if inTask() {
		return
	}
	for _, p := range parts {
		<-p.done()
	}
}

// shutdownAll implements Shutdown of an executor that consists of these parts.
func shutdownAll(ctx context.Context, parts ...part) error {
	for _, p := range parts {
		p.stop(false)
	}
	if inTask() {
		return nil
	}
	for _, p := range parts {
		select {
		case <-p.done():
			continue
		default:
		}
		select {
		case <-p.done():
		case <-ctx.Done():
			for _, p := range parts {
				p.stop(true)
			}
			return ctx.Err()
		}
	}
	return nil
}

// roots are the functions that call tasks.
var roots = [...]string{"(*worker).run", "(*rrWorker).run", "runTask"}

// inTask reports whether the calling goroutine runs a task of any executor.
func inTask() bool { return callstack.Within("github.com/sluice-push/sluice/workerpool", roots[:]) }
