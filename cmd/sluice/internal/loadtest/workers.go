package loadtest

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/process"
	"github.com/sluice-push/sluice/internal/sockopt"
)

// workerSet holds the workers of a run, each with a part of the clients. Its methods are for the goroutine of Run, except for read.
type workerSet struct {
	handles []*workerHandle
	events  chan workerEvent // received by the goroutine of Run
	ctx     context.Context  // ends with close
	cancel  context.CancelFunc
	reading sync.WaitGroup           // the goroutines in read
	done    func(k uint32, from int) // called for each publication that all clients of a worker have
}

// workerEvent is a report of a worker, or the end of its reports.
type workerEvent struct {
	from   int // index of the worker
	report *report
	err    error // not nil: the worker sends no more reports
}

// workerHandle is the connection of a run to one worker.
type workerHandle struct {
	commands    *process.Messages
	out         io.Reader    // the worker's reports
	end         func() error // ends the worker, waits for it and returns its error
	exitedEarly bool         // the worker ended before it sent its result; used by the goroutine of Run only
}

// startWorkers starts the workers and sends each its job. A single worker runs in this process, and several in their own. The caller calls close.
func startWorkers(s *Spec, run uint32, o *Options, done func(k uint32, from int)) (*workerSet, error) {
	w := &workerSet{events: make(chan workerEvent, 16), done: done}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	n := s.processes(sockopt.FileLimit())
	if n > 1 && o.Worker == nil {
		w.cancel()
		return nil, fmt.Errorf("loadtest: %d clients need %d processes, but Options.Worker is not set: raise the limit of open files, or set it",
			s.Clients, n)
	}
	job := job{Spec: *s, Run: run}
	job.Spec.Connect, job.Spec.Rejoin = max(s.Connect/n, 1), max(s.Rejoin/n, 1)
	for i := range n {
		var h *workerHandle
		var in io.Writer
		var err error
		if n == 1 {
			h, in = startInProcess()
		} else if h, in, err = startProcess(o.Worker()); err != nil {
			w.close()
			return nil, err
		}
		w.handles = append(w.handles, h)
		job.From, job.To = s.Clients*i/n, s.Clients*(i+1)/n
		job.Tokens = s.tokensOf(job.From, job.To)
		h.commands = process.NewMessages(in)
		err = h.commands.Buffer(&job) // sent with the first command, which flushes
		w.reading.Go(func() { w.read(i, h) })
		if err != nil {
			w.close()
			return nil, fmt.Errorf("loadtest: send a command to a process: %w", err)
		}
	}
	return w, nil
}

// startInProcess starts a worker on a goroutine of this process. It returns the writer for the worker's commands.
func startInProcess() (*workerHandle, io.Writer) {
	commands, in := io.Pipe()
	out, reports := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := Work(context.Background(), commands, reports)
		_ = reports.CloseWithError(err)
		_ = commands.CloseWithError(err)
		done <- err
	}()
	return &workerHandle{out: out, end: func() error {
		_ = in.Close()
		_ = out.Close()
		return <-done
	}}, in
}

// startProcess starts a worker process with cmd. It returns the writer for the worker's commands, its standard input.
func startProcess(cmd *exec.Cmd) (*workerHandle, io.Writer, error) {
	p, err := process.Start(cmd)
	if err != nil {
		return nil, nil, fmt.Errorf("loadtest: start a process: %w", err)
	}
	return &workerHandle{out: p.Out, end: p.End}, p.In, nil
}

// read passes on the reports of worker i until they end, or close is called.
func (w *workerSet) read(i int, h *workerHandle) {
	dec := gob.NewDecoder(bufio.NewReaderSize(h.out, 64<<10))
	for {
		r := new(report)
		err := dec.Decode(r)
		if err == nil && r.Done != nil {
			for _, k := range r.Done {
				w.done(k, i)
			}
			continue
		}
		e := workerEvent{from: i, report: r}
		if err != nil {
			e = workerEvent{from: i, err: fmt.Errorf("loadtest: the process of clients %d has ended: %w", i+1, err)}
		}
		select {
		case w.events <- e:
		case <-w.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// broadcast sends a command to all workers.
func (w *workerSet) broadcast(o *command) error {
	for i, h := range w.handles {
		if err := h.commands.Send(o); err != nil {
			h.exitedEarly = true
			return fmt.Errorf("loadtest: the process of clients %d has ended: %w", i+1, err)
		}
	}
	return nil
}

// close ends all workers and waits for them. It returns the errors of the workers that had exited early.
func (w *workerSet) close() error {
	w.cancel()
	var errs []error
	for _, h := range w.handles {
		if err := h.end(); h.exitedEarly {
			errs = append(errs, err) // the errors of the other workers do not matter
		}
	}
	w.reading.Wait()
	return errors.Join(errs...)
}
