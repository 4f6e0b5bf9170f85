package main

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-push/sluice/push/config"
)

// configCmd holds the commands about the configuration.
type configCmd struct {
	Check   configCheckCmd   `cmd:"" help:"Say everything that is wrong with the configuration."`
	Default configDefaultCmd `cmd:"" help:"Print the default configuration, with comments."`
	HashKey configHashKeyCmd `cmd:"" help:"Print the hash of an API key, which is what the configuration holds."`
}

type configCheckCmd struct {
	File string `arg:"" optional:"" help:"Configuration file; none: the variables alone."`
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

// Run prints the default file.
func (*configDefaultCmd) Run(env *environment) error { return config.WriteDefault(env.stdout) }

// configHashKeyCmd reads the key from standard input: an argument would be seen in the list of processes.
type configHashKeyCmd struct {
	New bool `help:"Make a new random key, print it first, then its hash; read nothing."`
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
		return fmt.Errorf("a key of 1 to %d bytes is expected on standard input, or --new", maxKey)
	}
	_, err = fmt.Fprintln(env.stdout, config.HashKey(key))
	return err
}
