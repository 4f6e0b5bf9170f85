package workerpool

// This file exports the plain structs for tests.

// Ring is a ring for tests.
type Ring struct{ r ring }

func (r *Ring) Push(task func()) { r.r.push(task) }
func (r *Ring) Pop() func()      { return r.r.pop() }
func (r *Ring) Len() int         { return r.r.n }
func (r *Ring) Places() int      { return len(r.r.places) }
func (r *Ring) Clear() int       { return r.r.clear() }

// LocalQueue is a localQueue for tests. The caller of Fill, Steal and Left holds a lock; Take is for the owner.
type LocalQueue struct{ h localQueue }

func (h *LocalQueue) Take() func()                    { return h.h.take() }
func (h *LocalQueue) Fill(r *Ring, n int)             { h.h.fill(&r.r, n) }
func (h *LocalQueue) Steal(n int, to *LocalQueue) int { return h.h.steal(n, &to.h) }
func (h *LocalQueue) Drop() int                       { return h.h.steal(BatchSize, nil) }
func (h *LocalQueue) Left() int                       { return h.h.left() }
func Spread(key uint64, n int) int                    { return spread(key, n) }
func (o *Options) Defaults(e bool) Options            { return o.withDefaults(e) }

// The sizes of rings and local queues.
const (
	MinRing   = minRing
	KeptRing  = keptRing
	BatchSize = batchSize
)
