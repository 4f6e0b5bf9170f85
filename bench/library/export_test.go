package main

import (
	"context"
	"io"

	"github.com/sluice-push/sluice/bench/internal/load"
)

// What tests of the commands use.
var (
	Main        = main
	ServerNames = serverNames
)

// Run is the command line.
func Run(args []string, stdout io.Writer) error { return run(context.Background(), args, nil, stdout) }

// Framing is the codec of the servers on package session.
func Framing(echo bool) interface {
	Decode(in []byte) ([]byte, int, error)
} {
	return framing{protocol{echo: echo}}
}

// Args are the arguments of servers of a protocol.
func Args(proto string) load.Args { return args(proto, 0) }
