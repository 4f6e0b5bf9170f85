package load

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/sluice-push/sluice/internal/socket"
)

// crew is the processes that have the clients of a run, or the one group of them that is in this process.
type crew struct {
	members []*member
	events  chan event // what they report; read by the run
	ctx     context.Context
	cancel  context.CancelFunc
	reading sync.WaitGroup
	done    func(k uint32, from int) // is told of publications that all clients of a member have
}

// event is a report, or the end of a member.
type event struct {
	from   int
	report *report
	err    error // the member has ended, though nobody told it to
}

// member is one of a crew.
type member struct {
	orders *courier[order]
	out    io.Reader
	end    func() error // ends it, waits for that, and says how it went
	died   bool         // it has ended before that; owned by the run
}

// startCrew starts the processes, none when one is enough, and tells them what they are for. Its owner calls close.
func startCrew(s *Spec, run uint32, o *Options, done func(k uint32, from int)) (*crew, error) {
	c := &crew{events: make(chan event, 16), done: done}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	n := s.processes(socket.Limit())
	if n > 1 && o.Worker == nil {
		c.cancel()
		return nil, fmt.Errorf("load: %d clients need %d processes, and nothing says how to start one: allow more open files, or set Options.Worker",
			s.Clients, n)
	}
	job := job{Spec: *s, Token: s.Token, Run: run}
	job.Spec.Connect = max(s.Connect/n, 1)
	for i := range n {
		var m *member
		var in io.Writer
		var err error
		if n == 1 {
			m, in = here()
		} else if m, in, err = elsewhere(o.Worker()); err != nil {
			c.close()
			return nil, err
		}
		c.members = append(c.members, m)
		job.From, job.To = s.Clients*i/n, s.Clients*(i+1)/n
		m.orders = newCourier[order](in)
		err = m.orders.enc.Encode(&job) // it goes with the first order
		c.reading.Go(func() { c.read(i, m) })
		if err != nil {
			c.close()
			return nil, fmt.Errorf("load: tell a process what to do: %w", err)
		}
	}
	return c, nil
}

// here makes a member of this process.
func here() (*member, io.Writer) {
	orders, in := io.Pipe()
	out, reports := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := Work(context.Background(), orders, reports)
		_ = reports.CloseWithError(err)
		_ = orders.CloseWithError(err)
		done <- err
	}()
	return &member{out: out, end: func() error {
		_ = in.Close()
		_ = out.Close()
		return <-done
	}}, in
}

// endTime is how long a process may take to end.
const endTime = 5 * time.Second

// elsewhere makes a member of another process.
func elsewhere(cmd *exec.Cmd) (*member, io.Writer, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, fmt.Errorf("load: start a process: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, fmt.Errorf("load: start a process: %w", err)
	}
	said := &tail{}
	if cmd.Stderr == nil {
		cmd.Stderr = said
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("load: start a process: %w", err)
	}
	end := sync.OnceValue(func() error {
		_ = in.Close()
		late := time.AfterFunc(endTime, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		err := cmd.Wait()
		if text := said.String(); err != nil && text != "" {
			return fmt.Errorf("%w: %s", err, text)
		}
		return err
	})
	return &member{out: out, end: end}, in, nil
}

// tail keeps the end of what a process says.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// tailBytes is how much it keeps.
const tailBytes = 1000

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(len(t.text)-tailBytes, 0):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}

// read hands over what a member reports until it ends.
func (c *crew) read(i int, m *member) {
	dec := gob.NewDecoder(bufio.NewReaderSize(m.out, 64<<10))
	for {
		r := new(report)
		err := dec.Decode(r)
		if err == nil && r.Done != nil {
			for _, k := range r.Done {
				c.done(k, i)
			}
			continue
		}
		e := event{from: i, report: r}
		if err != nil {
			e = event{from: i, err: fmt.Errorf("load: the process of clients %d has ended: %w", i+1, err)}
		}
		select {
		case c.events <- e:
		case <-c.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// tell gives all members an order.
func (c *crew) tell(o *order) error {
	for i, m := range c.members {
		if err := m.orders.send(o); err != nil {
			return fmt.Errorf("load: the process of clients %d has ended: %w", i+1, err)
		}
	}
	return nil
}

// close ends all members and waits for them. It returns how those ended that should not have.
func (c *crew) close() error {
	c.cancel()
	var errs []error
	for _, m := range c.members {
		if err := m.end(); m.died {
			errs = append(errs, err) // the others end as they can
		}
	}
	c.reading.Wait()
	return errors.Join(errs...)
}
