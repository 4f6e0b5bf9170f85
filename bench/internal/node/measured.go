package node

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/sluice-push/sluice/bench/internal/child"
	"github.com/sluice-push/sluice/bench/internal/server"
)

// Measured is a process of sluice whose CPU time and memory are looked at. Its methods are for one goroutine.
type Measured struct {
	*Node
	looking int64 // nanoseconds of CPU that it took to look at it
}

// CPU returns how many nanoseconds of CPU the process has used, threads that ended included.
func (n *Measured) CPU() (int64, error) {
	used, err := child.CPU(n.PID())
	if err != nil {
		return 0, fmt.Errorf("%w\n%s", err, n.Said())
	}
	return used, nil
}

// Status answers the commands sample and gc of package server, and stats like any other. What it costs the node to be looked at does not count.
func (n *Measured) Status(command string) (server.Status, error) {
	before, err := n.CPU()
	if err != nil || command == "sample" {
		return server.Status{CPU: before - n.looking}, err
	}
	times, path := 1, "/debug/pprof/heap?debug=1"
	if command == "gc" {
		times, path = 3, path+"&gc=1"
	}
	var page []byte
	for range times {
		if page, err = n.Get(path); err != nil {
			return server.Status{}, fmt.Errorf("%w\n%s", err, n.Said())
		}
	}
	after, err := n.CPU()
	if err != nil {
		return server.Status{}, err
	}
	s := server.Status{CPU: before - n.looking}
	n.looking += after - before
	var mallocs, idle, released int64
	for _, f := range []struct {
		name  string
		value *int64
	}{{"Mallocs", &mallocs}, {"HeapIdle", &idle}, {"HeapReleased", &released}} {
		if *f.value, err = figure(page, f.name); err != nil {
			return s, err
		}
	}
	s.Mallocs, s.Unused = uint64(mallocs), idle-released
	return s, nil
}

// figure returns one of runtime.MemStats from the page of the heap's profile.
func figure(page []byte, name string) (int64, error) {
	_, rest, found := bytes.Cut(page, []byte("\n# "+name+" = "))
	value, _, _ := bytes.Cut(rest, []byte("\n"))
	if !found {
		return 0, fmt.Errorf("the profile of the heap does not say %s", name)
	}
	return strconv.ParseInt(string(value), 10, 64)
}
