package report

import (
	"net"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
)

// NewSamplerOf returns a sampler that reads the folder root instead of /proc. An empty root stands for a system without /proc.
func NewSamplerOf(root string, server ...int) *Sampler { return newSampler(proc(root), server) }

// HostOf is Host with a folder instead of /proc.
func HostOf(root string) loadtest.Host { return proc(root).host() }

// ListenersOf is Listeners with a folder instead of /proc.
func ListenersOf(root string, port int, ips ...net.IP) ([]int, error) {
	return proc(root).listeners(port, ips)
}

// ParseTables passes text to each parser of a file of /proc.
func ParseTables(text []byte, port int) {
	_, _ = parseStat(text)
	_ = kilobytes(text, "Rss:")
	_ = cpuModel(string(text))
	_ = listening(string(text), port, []net.IP{net.IPv4(127, 0, 0, 1)})
}

// The functions that format numbers.
var (
	Significant  = significant
	Milliseconds = milliseconds
	Seconds      = seconds
	Binary       = binary
	Percent      = percent
	Thousands    = thousands[int64]
)

// FormatVersion is the version of the result format.
const FormatVersion = formatVersion
