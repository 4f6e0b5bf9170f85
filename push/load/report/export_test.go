package report

import (
	"net"

	"github.com/sluice-push/sluice/push/load"
)

// NewSamplerOf returns a sampler that reads another folder than /proc, empty for a system without.
func NewSamplerOf(root string, server ...int) *Sampler { return newSampler(proc(root), server) }

// HostOf returns the facts of a host by another folder than /proc.
func HostOf(root string) load.Host { return proc(root).host() }

// ListenersOf returns who listens, by another folder than /proc.
func ListenersOf(root string, port int, ips ...net.IP) ([]int, error) {
	return proc(root).listeners(port, ips)
}

// ParseTables gives text to all that read files of /proc.
func ParseTables(text []byte, port int) {
	_, _ = parseStat(text)
	_ = kilobytes(text, "Rss:")
	_ = cpuModel(string(text))
	_ = listening(string(text), port, []net.IP{net.IPv4(127, 0, 0, 1)})
}

// Numbers as they are written.
var (
	Significant  = significant
	Milliseconds = milliseconds
	Seconds      = seconds
	Binary       = binary
	Percent      = percent
	Thousands    = thousands[int64]
)

// Form is the form of results.
const Form = form
