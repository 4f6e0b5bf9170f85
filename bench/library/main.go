// Command library compares servers of framed messages: package session with a loop in C, which is as good as it gets, with
// servers on package net, and with netpoll. Every server is a process of its own, and so is the client, which is in C as well and
// checks every byte. For each workload the servers take turns, round after round, so that all of them see the same machine.
//
//	go run ./library
//	go run ./library -cells a1,a2 -servers c,net,sluice-goroutine -rounds 3 -seconds 2
//
// A C compiler called cc is needed, and Linux.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "library:", err)
		os.Exit(1)
	}
}

// run is main, or the process of a server when the first argument is serve.
func run(args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) > 0 && args[0] == "serve" {
		return serve(args[1:], stdin, stdout)
	}
	flags := flag.NewFlagSet("library", flag.ContinueOnError)
	cellNames := flags.String("cells", "all", "cells, separated by commas")
	servers := flags.String("servers", "all", "servers, separated by commas")
	rounds := flags.Int("rounds", 5, "how often each server is measured in each cell")
	seconds := flags.Float64("seconds", 1, "how long for")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(*cellNames, cells(), func(c cell) string { return c.name })
	if err != nil {
		return err
	}
	who, err := choose(*servers, serverNames(), func(s string) string { return s })
	if err != nil {
		return err
	}
	p, err := compile()
	if err != nil {
		return err
	}
	defer p.remove()
	b := &bench{programs: p, rounds: *rounds, window: time.Duration(*seconds * float64(time.Second)), progress: progress()}
	for _, c := range chosen {
		samples, err := b.cell(c, who)
		if err != nil {
			return err
		}
		if err := table(stdout, c, summarize(samples, who)); err != nil {
			return err
		}
	}
	return nil
}

// progress returns where to say what is being measured: on a terminal only.
func progress() io.Writer {
	if i, err := os.Stderr.Stat(); err != nil || i.Mode()&os.ModeCharDevice == 0 {
		return io.Discard
	}
	return os.Stderr
}

// choose returns those of all that names, separated by commas, names, or all of them.
func choose[T any](names string, all []T, name func(T) string) ([]T, error) {
	if names == "all" {
		return all, nil
	}
	var chosen []T
	for n := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(t T) bool { return name(t) == n })
		if i < 0 {
			return nil, fmt.Errorf("nothing is called %q", n)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
