package workerpool

// What the tests of the plain structs need.

// Ring is a ring for tests.
type Ring struct{ r ring }

func (r *Ring) Push(task func()) { r.r.push(task) }
func (r *Ring) Pop() func()      { return r.r.pop() }
func (r *Ring) Len() int         { return r.r.n }
func (r *Ring) Places() int      { return len(r.r.places) }
func (r *Ring) Clear() int       { return r.r.clear() }

// Hand is a hand for tests. Fill, Rob and Left need a lock, Take is for its owner.
type Hand struct{ h hand }

func (h *Hand) Take() func()               { return h.h.take() }
func (h *Hand) Fill(r *Ring, n int)        { h.h.fill(&r.r, n) }
func (h *Hand) Rob(n int, to *Hand) int    { return h.h.rob(n, &to.h) }
func (h *Hand) Drop() int                  { return h.h.rob(BatchSize, nil) }
func (h *Hand) Left() int                  { return h.h.left() }
func Spread(key uint64, n int) int         { return spread(key, n) }
func (o *Options) Defaults(e bool) Options { return o.withDefaults(e) }

// The sizes of rings and hands.
const (
	MinRing   = minRing
	KeptRing  = keptRing
	BatchSize = batchSize
)
