package network

import "time"

// Link is a link.
type Link = link

// Ending is an ending.
type Ending = ending

// The endings of a link.
const (
	Going  = going
	Ended  = ended
	Broken = broken
)

// Never is a time that is never reached.
const Never = never

// NewLink returns a link whose jitter has a seed.
func NewLink(w Way, seed uint64) *Link { return newLink(w, source(seed, 0, ofUp)) }

// Room is room.
func (l *link) Room() int { return l.room() }

// Put is put.
func (l *link) Put(now time.Duration, p []byte) { l.put(now, p) }

// Take is take.
func (l *link) Take(now time.Duration, dst []byte) (int, time.Duration) { return l.take(now, dst) }

// Delivered is delivered.
func (l *link) Delivered(n int) { l.delivered(n) }

// Discard is discard.
func (l *link) Discard() int { return l.discard() }

// End is end.
func (l *link) End(now time.Duration, how ending) { l.end(now, how) }

// Over is over.
func (l *link) Over(now time.Duration) (ending, time.Duration) { return l.over(now) }

// Change is change.
func (l *link) Change(now time.Duration, w Way) { l.change(now, w) }

// Memory returns how many bytes of memory a link keeps for its bytes.
func (l *link) Memory() int { return cap(l.bytes) }

// MaxBytes returns how many bytes may be under way.
func (w Way) MaxBytes() int { return w.buffer() }

// Burst is burst.
func Burst(bandwidth int64) int { return burst(bandwidth) }

// Fate is a fate.
type Fate = fate

// NewFate is newFate.
func NewFate(c Conditions, id uint64, now time.Duration) *Fate {
	f := newFate(&c, id, now)
	return &f
}

// Stalled is stalled.
func (f *fate) Stalled(now time.Duration) (bool, time.Duration) { return f.stalled(now) }

// Ends returns the times at which a fate resets a connection and makes it half open.
func (f *fate) Ends() (reset, halfOpen time.Duration) { return f.reset, f.halfOpen }

// IsChosen is isChosen.
func IsChosen(seed, id uint64, share float64) bool { return isChosen(seed, id, share) }

// Heard reports whether the end of each side has arrived at the proxy.
func (c *Conn) Heard() (client, target bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.up.heard, c.down.heard
}
