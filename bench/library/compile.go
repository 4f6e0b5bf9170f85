package main

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// The programs in C: the server that is the limit, and the client, which costs so little that it does not get in the way.
//
//go:embed csrc
var sources embed.FS

// programs are the compiled programs, in a folder of their own.
type programs struct {
	folder, server, client string
}

// compile builds the programs; remove deletes them.
func compile() (*programs, error) {
	folder, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return nil, err
	}
	p := &programs{folder: folder, server: filepath.Join(folder, "server"), client: filepath.Join(folder, "client")}
	if err := p.build(); err != nil {
		p.remove()
		return nil, fmt.Errorf("compile: %w", err)
	}
	return p, nil
}

func (p *programs) build() error {
	c, err := fs.Sub(sources, "csrc")
	if err != nil {
		return err
	}
	if err := os.CopyFS(p.folder, c); err != nil {
		return err
	}
	for _, program := range []string{p.server, p.client} {
		if out, err := exec.Command("cc", "-O2", "-Wall", "-o", program, program+".c").CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
	}
	return nil
}

func (p *programs) remove() { _ = os.RemoveAll(p.folder) }
