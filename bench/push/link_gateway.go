package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// linkChannels are the channels of the partitions, in their order.
var linkChannels = sync.OnceValue(func() []string {
	all := make([]string, linkPartitions)
	for i, missing := 0, linkPartitions; missing > 0; i++ {
		name := fmt.Sprintf("n:channel%d", i)
		if p := broker.PartitionOf(name, linkPartitions).Index; all[p] == "" {
			all[p] = name
			missing--
		}
	}
	return all
})

// arrivals is what has come to a gateway.
type arrivals struct {
	all         atomic.Int64
	every       int64
	acknowledge func(all int64) error // called for each so many; several goroutines call it
	partitions  [linkPartitions]arrival
	wrong       atomic.Pointer[error] // the first mistake
}

func newArrivals(every int, acknowledge func(int64) error) *arrivals {
	a := &arrivals{every: int64(every), acknowledge: acknowledge}
	for p := range a.partitions {
		a.partitions[p].arrivals, a.partitions[p].channel = a, linkChannels()[p]
	}
	return a
}

// arrival is the follower of a partition.
type arrival struct {
	*arrivals
	channel string
	last    atomic.Uint64 // offset
}

// Deliver implements broker.Follower. It checks that nothing is missing.
func (a *arrival) Deliver(batch []broker.Message) {
	last := a.last.Load()
	for i := range batch {
		m := &batch[i]
		if last++; m.Offset != last || m.Channel != a.channel || len(m.Data) != linkSize || m.Key == "" {
			a.fail(fmt.Errorf("after offset %d of %s came %d of %s, with %d bytes", last-1, a.channel, m.Offset, m.Channel, len(m.Data)))
		}
	}
	a.came(last, len(batch))
}

// came counts publications, the last of which has an offset.
func (a *arrival) came(last uint64, n int) {
	a.last.Store(last)
	all := a.all.Add(int64(n))
	if all/a.every == (all-int64(n))/a.every {
		return
	}
	if err := a.acknowledge(all); err != nil {
		a.fail(err)
	}
}

// Gap implements broker.Follower.
func (a *arrival) Gap(channel string, offset uint64) {
	a.fail(fmt.Errorf("a gap of %q up to %d", channel, offset))
}

// Advance implements broker.Follower.
func (*arrival) Advance(uint64) {}

// Reset implements broker.Follower.
func (a *arrival) Reset(at push.Position) { a.fail(fmt.Errorf("a reset to %v", at)) }

func (a *arrivals) fail(err error) { a.wrong.CompareAndSwap(nil, &err) }

// counts returns what has come, or the first mistake.
func (a *arrivals) counts() (*linkCounts, error) {
	if err := a.wrong.Load(); err != nil {
		return nil, *err
	}
	c := &linkCounts{All: a.all.Load()}
	for p := range a.partitions {
		c.Last = append(c.Last, a.partitions[p].last.Load())
	}
	return c, nil
}

// linkGateway is the process of a gateway. It answers each line with what has come.
func linkGateway(args []string, stdin io.Reader, stdout io.Writer) error {
	s, err := linkFlags("gateway", args)
	if err != nil {
		return err
	}
	acks, err := net.Dial("tcp", s.acks)
	if err != nil {
		return err
	}
	defer acks.Close() //nolint:errcheck // what was written was counted
	var mu sync.Mutex
	a := newArrivals(s.shape.every, func(all int64) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := acks.Write(binary.LittleEndian.AppendUint64(nil, uint64(all)))
		return err
	})
	end, err := connectLink(s, a)
	if err != nil {
		return err
	}
	defer end()
	out := json.NewEncoder(stdout)
	if err := out.Encode(struct{}{}); err != nil { // connected
		return err
	}
	return s.answer(func() error {
		for lines := bufio.NewScanner(stdin); lines.Scan(); {
			counts, err := a.counts()
			if err == nil {
				err = out.Encode(counts)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
