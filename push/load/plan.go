package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"time"
)

// plan is what follows from a spec alone, and is therefore the same in every process: who subscribes to what, what is published when, and
// by which writer. It is read only.
//
// A writer publishes one publication at a time, so that the order in which the server has them is the order in which they were made. The
// publications of one writer in one channel are a stream. With one channel there are as many streams as writers; with many channels each
// belongs to one writer, unless the loop is closed, when a writer goes on as soon as all have its publication, whatever its channel.
type plan struct {
	spec     Spec
	channels int
	lanes    int // streams of a channel
	writers  int
	each     int       // channels of a client
	chances  []float64 // shape market: of a publication to be for a channel up to this one
}

// What one writer is expected to do at least when answers of the server take their time, and how many there are at most.
const (
	writerRate = 200 // publications a second
	maxWriters = 32
)

func newPlan(s Spec) *plan {
	p := &plan{spec: s, channels: 1, each: 1}
	switch {
	case s.Shape == Idle:
	case s.Rate < 0:
		p.writers = s.Window
	default:
		p.writers = min(max(int(math.Ceil(s.Rate/writerRate)), 1), maxWriters)
	}
	p.lanes = max(p.writers, 1)
	if s.Shape != Market {
		return p
	}
	p.channels, p.each = s.Channels, s.Each
	if s.Rate > 0 {
		p.lanes = 1
		p.writers = min(p.writers, p.channels)
	}
	p.chances = make([]float64, p.channels)
	sum := 0.0
	for i := range p.chances {
		sum += math.Pow(float64(i+1), -s.Zipf)
		p.chances[i] = sum
	}
	for i := range p.chances {
		p.chances[i] /= sum
	}
	return p
}

// closed reports whether publications wait for each other instead of for a clock.
func (p *plan) closed() bool { return p.spec.Rate < 0 }

// streams is how many there are in all.
func (p *plan) streams() int { return p.channels * p.lanes }

// channelOf is the channel of a publication.
func (p *plan) channelOf(k uint32) int {
	if p.chances == nil {
		return 0
	}
	u := float64(mix(seedOf(p.spec.Seed, "channel", 0), uint64(k))>>11) / (1 << 53)
	return min(sort.SearchFloat64s(p.chances, u), p.channels-1)
}

// writerOf is the writer of a publication, where the clock rules.
func (p *plan) writerOf(k uint32) int {
	if p.chances == nil {
		return int(k) % p.writers
	}
	return p.channelOf(k) % p.writers
}

// streamOf is the stream of what a writer publishes in a channel.
func (p *plan) streamOf(channel, writer int) uint32 {
	if p.lanes == 1 {
		return uint32(channel) //nolint:gosec // below maxStreams
	}
	return uint32(channel*p.lanes + writer) //nolint:gosec // below maxStreams
}

// due is when a publication is due, from the first one on.
func (p *plan) due(k uint32) time.Duration {
	return time.Duration(float64(k) / p.spec.Rate * float64(time.Second))
}

// subscriptions returns the channels of a client, in their order.
func (p *plan) subscriptions(client int) []uint32 {
	if p.spec.Shape != Market {
		return []uint32{0}
	}
	r := rand.New(rand.NewPCG(seedOf(p.spec.Seed, "client", client), 0)) //nolint:gosec // nobody has to be kept from guessing it
	chosen := make(map[uint32]struct{}, p.each)
	list := make([]uint32, 0, p.each)
	// Robert Floyd's way to choose some of many (J. Bentley, Programming Pearls, CACM 30(9), 1987).
	for i := p.channels - p.each; i < p.channels; i++ {
		c := uint32(r.IntN(i + 1)) //nolint:gosec // below maxStreams
		if _, taken := chosen[c]; taken {
			c = uint32(i) //nolint:gosec // likewise
		}
		chosen[c] = struct{}{}
		list = append(list, c)
	}
	slices.Sort(list)
	return list
}

// stalls reports whether clients stop reading.
func (s *Spec) stalls() bool { return s.Stalled > 0 && (s.Shape == Slow || s.Shape == Market) }

// stalls reports whether a client is one of those that stop reading. They are spread evenly.
func (p *plan) stalls(client int) bool {
	if !p.spec.stalls() {
		return false
	}
	share := p.spec.Stalled
	return math.Floor(float64(client+1)*share) > math.Floor(float64(client)*share)
}

// channelName is what a channel is called.
func (p *plan) channelName(channel int) string { return p.spec.Prefix + strconv.Itoa(channel) }
