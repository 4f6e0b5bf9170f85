package main

import (
	"context"
	"io"
	"path/filepath"
)

// Run runs the blocks of a file, as the command does.
func Run(ctx context.Context, file string, log io.Writer) error { return run(ctx, file, log) }

// RunBlocks runs the blocks of a text in dir instead of a clone, with another command for node. Scratch files are made beside dir.
func RunBlocks(ctx context.Context, dir, node, markdown string, log io.Writer) error {
	blocks, err := parse(markdown)
	if err != nil {
		return err
	}
	return runAll(ctx, &runner{dir: dir, scratch: filepath.Dir(node), node: node}, "README.md", blocks, log)
}

// Block is one parsed block.
type Block struct {
	Line              int
	Lang, Until, File string
	Background        bool
	Text              string
}

// Parse returns the blocks of a text.
func Parse(markdown string) ([]Block, error) {
	blocks, err := parse(markdown)
	var out []Block
	for _, b := range blocks {
		out = append(out, Block{b.line, b.lang, b.until, b.file, b.background, b.text})
	}
	return out, err
}

// WriteOutput writes chunks to an output that searches for a line. It reports whether the line was found, and returns the output that was kept.
func WriteOutput(until string, chunks ...string) (found bool, kept string) {
	o := newOutput(until)
	for _, c := range chunks {
		_, _ = io.WriteString(o, c)
	}
	select {
	case <-o.found:
		found = true
	default:
	}
	return found, o.tail()
}
