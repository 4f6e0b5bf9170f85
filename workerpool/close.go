package workerpool

import (
	"context"

	"github.com/sluice-push/sluice/internal/stack"
)

// How executors end. Closed: submissions are refused, who waits for room is turned away, workers end when the queue is empty. Dropped, as
// well: the queue is empty from now on. Gone: the last worker has ended, and the last task that a caller runs.

// part is something with workers: a pool, or a RoundRobin.
type part interface {
	stop(drop bool)        // closes it, and drops what has not begun if drop says so; may be called often
	done() <-chan struct{} // closed when it is gone
}

// stop is described at part.
func (p *pool) stop(drop bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.line.turnAway(ErrClosed)
	if drop {
		p.dropped += uint64(p.tasks.clear())
		for _, w := range p.holding {
			p.dropped += uint64(w.hand.rob(batchSize, nil))
		}
	}
	for _, w := range p.idle {
		w.wake <- struct{}{} // there is room: nobody else may wake it
	}
	p.idle = nil
	if p.alarm != nil {
		p.alarm.Stop()
	}
	p.endLocked()
}

func (p *pool) done() <-chan struct{} { return p.gone }

// endLocked notes that the pool is gone, if it is.
func (p *pool) endLocked() {
	if p.closed && !p.ended && p.workers == 0 && p.callers == 0 {
		p.ended = true
		close(p.gone)
	}
}

// closeAll is Close of an executor that consists of these parts.
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

// shutdownAll is Shutdown of an executor that consists of these parts.
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

// roots are the functions by which tasks are called.
var roots = [...]string{"(*worker).run", "(*seat).run", "runTask"}

// inTask reports whether the calling goroutine runs a task, of whichever executor.
func inTask() bool { return stack.Within("github.com/sluice-push/sluice/workerpool", roots[:]) }
