package broker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// A namespace is opened once. Another Open adopts only another history.
func TestTableOpen(t *testing.T) {
	var table broker.Table[string]
	ctx := t.Context()
	ns := broker.Namespace{Name: "n", Mode: push.Table, Partitions: 2}
	var retained []string
	open := func(ns broker.Namespace, partitions ...string) error {
		err := table.Check(ctx, ns)
		if opened := table.Open(ns, partitions, func(p string, h push.History) { retained = append(retained, p+" "+h.Age.String()) }); err == nil {
			err = opened
		}
		return err
	}
	if err := open(ns, "a", "b"); err != nil {
		t.Fatal(err)
	}
	if err := open(ns, "c", "d"); err != nil || len(retained) > 0 {
		t.Errorf("the same again: %v, %q", err, retained)
	}
	longer := ns
	longer.History.Age = time.Hour
	if err := open(longer, "c", "d"); err != nil || !slices.Equal(retained, []string{"a 1h0m0s", "b 1h0m0s"}) {
		t.Errorf("another history: %v, %q", err, retained)
	}
	for want, change := range map[string]func(*broker.Namespace){
		"mode table, which cannot change to stream": func(n *broker.Namespace) { n.Mode = push.Stream },
		"2 partitions, which cannot change to 3":    func(n *broker.Namespace) { n.Partitions = 3 },
		"durable cannot change":                     func(n *broker.Namespace) { n.Durable = true },
		"at least 1 is needed":                      func(n *broker.Namespace) { n.Partitions = 0 },
	} {
		other := longer
		change(&other)
		if err := open(other, "c", "d", "e"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if all := table.All(); !slices.Equal(all, []string{"a", "b"}) {
		t.Errorf("partitions %q", all)
	}
}

// Partitions are found by channel and by number, and not after Close.
func TestTableFind(t *testing.T) {
	var table broker.Table[int]
	ctx := t.Context()
	if err := table.Open(broker.Namespace{Name: "n", Partitions: 2}, []int{10, 11}, nil); err != nil {
		t.Fatal(err)
	}
	for _, channel := range []string{"n:a", "n:b", "n:c"} {
		want := 10 + broker.PartitionOf(channel, 2).Index
		if p, err := table.Of(ctx, channel); p != want || err != nil {
			t.Errorf("%s: %d, %v", channel, p, err)
		}
	}
	if p, err := table.At(ctx, broker.Partition{Namespace: "n", Index: 1}); p != 11 || err != nil {
		t.Error(p, err)
	}
	for _, index := range []int{-1, 2} {
		if _, err := table.At(ctx, broker.Partition{Namespace: "n", Index: index}); err == nil || !strings.Contains(err.Error(), "only 2 in all") {
			t.Error(index, err)
		}
	}
	if _, err := table.Of(ctx, "m:a"); !errors.Is(err, broker.ErrUnknownNamespace) {
		t.Error(err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := table.Of(done, "n:a"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if table.IsClosed() || !table.Close() || table.Close() || !table.IsClosed() {
		t.Error("it is not closed once")
	}
	for _, err := range []error{
		second(table.Of(ctx, "n:a")), second(table.At(ctx, broker.Partition{Namespace: "n"})),
		table.Check(ctx, broker.Namespace{Name: "n", Partitions: 1}), table.Open(broker.Namespace{Name: "o"}, nil, nil),
	} {
		if !errors.Is(err, broker.ErrClosed) {
			t.Error(err)
		}
	}
}

func second(_ int, err error) error { return err }
