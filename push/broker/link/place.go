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
	// Changed returns a channel that is closed when Hubs may give other answers. After that, Changed returns a new channel. nil: the answers never change.
	Changed() <-chan struct{}
}

// Fixed is a Placement on hubs that never change. Each partition is on all of them. A hash of the partition orders them, so that the hubs share the
// partitions.
type Fixed []string

// Hubs implements [Placement].
func (f Fixed) Hubs(p broker.Partition) []string {
	key := hashOf(p)
	hubs := slices.Clone(f)
	slices.SortStableFunc(hubs, func(a, b string) int {
		return cmp.Compare(rendezvous.Score(key, rendezvous.Hash(b), 1), rendezvous.Score(key, rendezvous.Hash(a), 1))
	})
	return hubs
}

// hashOf returns the hash by which hubs and connections are chosen for a partition.
func hashOf(p broker.Partition) uint64 {
	return rendezvous.Hash(p.Namespace + "\x00" + strconv.Itoa(p.Index))
}

// Changed implements [Placement].
func (f Fixed) Changed() <-chan struct{} { return nil }
