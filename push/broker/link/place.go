package link

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/sluice-push/sluice/internal/rendezvous"
	"github.com/sluice-push/sluice/push/broker"
)

// Placement says where partitions are. Its methods are called concurrently, and do not wait.
type Placement interface {
	// Hubs returns the addresses of the hubs that have a partition, the best first: HOST:PORT or unix:PATH. The empty Partition stands for what belongs to
	// no partition: control messages and leases.
	Hubs(p broker.Partition) []string
	// Changed returns a channel that is closed when Hubs may give other answers. Then it returns another one.
	Changed() <-chan struct{}
}

// Fixed is a Placement on hubs that never change. Each partition is on all of them, and prefers another one.
type Fixed []string

// Hubs implements [Placement].
func (f Fixed) Hubs(p broker.Partition) []string {
	key := rendezvous.Hash(p.Namespace + "\x00" + strconv.Itoa(p.Index))
	hubs := slices.Clone(f)
	slices.SortStableFunc(hubs, func(a, b string) int {
		return cmp.Compare(rendezvous.Score(key, rendezvous.Hash(b), 1), rendezvous.Score(key, rendezvous.Hash(a), 1))
	})
	return hubs
}

// Changed implements [Placement].
func (f Fixed) Changed() <-chan struct{} { return nil }
