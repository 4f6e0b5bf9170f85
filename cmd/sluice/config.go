package main

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-push/sluice/cmd/sluice/internal/explain"
	"github.com/sluice-push/sluice/push/config"
)

// configCmd holds the commands that deal with the configuration.
type configCmd struct {
	Check   configCheckCmd   `cmd:"" help:"Check the configuration, and report every problem."`
	Default configDefaultCmd `cmd:"" help:"Print the default configuration, with comments."`
	Explain explain.Command  `cmd:"" help:"Say what a node decides, and why: what a client may do, to which gateways it is sent, which hub has a channel."`
	HashKey configHashKeyCmd `cmd:"" help:"Print the hash of an API key, for the configuration."`
}

type configCheckCmd struct {
	File string `arg:"" optional:"" help:"Configuration file. Without one, only the environment variables are checked."`
}

// Run loads the configuration as serve would.
func (c *configCheckCmd) Run(env *environment) error {
	cfg, err := config.Load(c.File, env.variables, nil)
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings() {
		_, _ = fmt.Fprintln(env.stderr, "warning: "+w)
	}
	_, err = fmt.Fprintln(env.stdout, "the configuration is valid")
	return err
}

type configDefaultCmd struct{}

// Run prints the default configuration file.
func (*configDefaultCmd) Run(env *environment) error { return config.WriteDefault(env.stdout) }

// configHashKeyCmd hashes an API key. It reads the key from standard input, because an argument would be visible in the list of processes.
type configHashKeyCmd struct {
	New bool `help:"Generate a random key, and print the key and its hash, instead of reading a key from standard input."`
}

// maxKey is the longest API key accepted, in bytes.
const maxKey = 1024

// Run prints the hash.
func (c *configHashKeyCmd) Run(env *environment) error {
	if c.New {
		key := rand.Text()
		_, err := fmt.Fprintf(env.stdout, "%s\n%s\n", key, config.HashKey(key))
		return err
	}
	line, err := bufio.NewReader(io.LimitReader(env.stdin, maxKey+2)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the key: %w", err)
	}
	key := strings.TrimRight(line, "\r\n")
	if key == "" || len(key) > maxKey {
		return fmt.Errorf("the key on standard input must have 1 to %d bytes: pipe a key in, or generate one with --new", maxKey)
	}
	_, err = fmt.Fprintln(env.stdout, config.HashKey(key))
	return err
}
