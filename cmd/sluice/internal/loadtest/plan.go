package loadtest

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/delivery"
)

// plan is the part of a run that follows from its spec alone: the subscriptions of each client, and the time, channel and writer of each
// publication. It is therefore the same in every process. A plan does not change.
//
// A writer is a goroutine that publishes. It has one publication under way at a time, so the server gets them in the order in which they were
// made. The publications of one writer in one channel are a stream. A single channel has one stream for each writer. With several channels and an
// open loop, each channel belongs to one writer, so it has one stream. In a closed loop every writer publishes to every channel. There it
// continues as soon as all clients have its publication.
type plan struct {
	spec              Spec
	channels          int
	streamsPerChannel int // how many streams a channel has
	writers           int
	each              int       // how many channels a client subscribes to
	cumulative        []float64 // with several channels: the probability that a publication is for this channel or a lower one
}

// The number of writers follows from the rate.
const (
	writerRate = 200 // publications a second that one writer manages although the server answers slowly
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
	p.streamsPerChannel = max(p.writers, 1)
	if !s.hasChannels() {
		return p
	}
	p.channels, p.each = s.Channels, s.Each
	if s.Rate > 0 {
		p.streamsPerChannel = 1
		p.writers = min(p.writers, p.channels)
	}
	p.cumulative = make([]float64, p.channels)
	sum := 0.0
	for i := range p.cumulative {
		sum += math.Pow(float64(i+1), -s.Zipf)
		p.cumulative[i] = sum
	}
	for i := range p.cumulative {
		p.cumulative[i] /= sum
	}
	return p
}

// isClosedLoop reports whether a writer publishes when all clients have its last publication, instead of by a schedule.
func (p *plan) isClosedLoop() bool { return p.spec.Rate < 0 }

// streams returns the number of streams in all channels.
func (p *plan) streams() int { return p.channels * p.streamsPerChannel }

// channelOf returns the channel of publication k.
func (p *plan) channelOf(k uint32) int {
	if p.cumulative == nil {
		return 0
	}
	u := float64(delivery.Mix(deriveSeed(p.spec.Seed, "channel", 0), uint64(k))>>11) / (1 << 53)
	return min(sort.SearchFloat64s(p.cumulative, u), p.channels-1)
}

// writerOf returns the writer of publication k in an open loop.
func (p *plan) writerOf(k uint32) int {
	if p.cumulative == nil {
		return int(k) % p.writers
	}
	return p.channelOf(k) % p.writers
}

// streamOf returns the stream of a writer's publications in a channel.
func (p *plan) streamOf(channel, writer int) uint32 {
	if p.streamsPerChannel == 1 {
		return uint32(channel) //nolint:gosec // below delivery.MaxStreams
	}
	return uint32(channel*p.streamsPerChannel + writer) //nolint:gosec // below delivery.MaxStreams
}

// due returns when publication k is due, counted from the first publication.
func (p *plan) due(k uint32) time.Duration {
	return time.Duration(float64(k) / p.spec.Rate * float64(time.Second))
}

// subscriptions returns the channels of a client in ascending order.
func (p *plan) subscriptions(client int) []uint32 {
	if !p.spec.hasChannels() {
		return []uint32{0}
	}
	r := rand.New(rand.NewPCG(deriveSeed(p.spec.Seed, "client", client), 0)) //nolint:gosec // it need not be unpredictable
	chosen := make(map[uint32]struct{}, p.each)
	list := make([]uint32, 0, p.each)
	// Robert Floyd's sampling algorithm (J. Bentley, Programming Pearls, CACM 30(9), 1987).
	for i := p.channels - p.each; i < p.channels; i++ {
		c := uint32(r.IntN(i + 1)) //nolint:gosec // below delivery.MaxStreams
		if _, taken := chosen[c]; taken {
			c = uint32(i) //nolint:gosec // likewise
		}
		chosen[c] = struct{}{}
		list = append(list, c)
	}
	slices.Sort(list)
	return list
}

// hasChannels reports whether the clients of the run subscribe to Each of Channels channels, instead of to the only one.
func (s *Spec) hasChannels() bool { return s.Shape == Market || s.Shape == Storm && s.Channels > 1 }

// stalls reports whether some clients of the run stop reading.
func (s *Spec) stalls() bool { return s.Stalled > 0 && (s.Shape == Slow || s.Shape == Market) }

// stalls reports whether a client stops reading. The clients that stall are spread evenly over all clients.
func (p *plan) stalls(client int) bool {
	if !p.spec.stalls() {
		return false
	}
	share := p.spec.Stalled
	return math.Floor(float64(client+1)*share) > math.Floor(float64(client)*share)
}

// channelName returns the name of a channel.
func (p *plan) channelName(channel int) string { return p.spec.Prefix + strconv.Itoa(channel) }

// deriveSeed derives an independent seed for one random sequence from its name and number. The first eight bytes of the name count.
func deriveSeed(seed uint64, what string, n int) uint64 {
	var name [8]byte
	copy(name[:], what)
	return delivery.Mix(delivery.Mix(seed, binary.LittleEndian.Uint64(name[:])), uint64(n)) //nolint:gosec // any number will do
}
