// Package load compares servers: it starts each of them as a process, with a client in C beside it, which checks every byte that comes
// back, and puts together what the two say.
package load

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// The programs in C: the servers that are the limit, and the client, which costs so little that it does not get in the way.
//
//go:embed csrc
var sources embed.FS

// Programs are the compiled programs, in a folder of their own.
type Programs struct {
	Server, Client string // paths
	folder         string
}

// Compile builds one of the servers, frames or websocket, and one of the clients, client or subscribers; Remove deletes them.
func Compile(server, client string) (*Programs, error) {
	folder, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return nil, err
	}
	p := &Programs{folder: folder, Server: filepath.Join(folder, server), Client: filepath.Join(folder, client)}
	if err := p.build(); err != nil {
		p.Remove()
		return nil, fmt.Errorf("compile: %w", err)
	}
	return p, nil
}

func (p *Programs) build() error {
	c, err := fs.Sub(sources, "csrc")
	if err != nil {
		return err
	}
	if err := os.CopyFS(p.folder, c); err != nil {
		return err
	}
	for _, program := range []string{p.Server, p.Client} {
		if out, err := exec.Command("cc", "-O2", "-Wall", "-Werror", "-pthread", "-o", program, program+".c").CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
	}
	return nil
}

// Remove deletes the programs.
func (p *Programs) Remove() { _ = os.RemoveAll(p.folder) }
