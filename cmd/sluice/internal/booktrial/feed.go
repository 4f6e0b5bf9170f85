package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/recording"
)

// feed is the recorded order book of one instrument: a snapshot, and the updates that follow it.
type feed struct {
	channel string
	start   []change // turns an empty book into the snapshot
	from    uint64   // the number of the snapshot's update
	frames  []frame
}

// frame is one update of the exchange.
type frame struct {
	at      int64 // when it was received, in Unix nanoseconds
	update  uint64
	changes []change
	best    *quote // the best quote after this update according to the exchange; nil if the recording has none
}

// wire is the JSON of Binance's depth updates, best quotes, and snapshots. It lists names that differ only in case, because encoding/json would
// otherwise confuse them.
type wire struct {
	LastUpdateID uint64      `json:"lastUpdateId"`
	Bids         [][2]string `json:"bids"`
	Asks         [][2]string `json:"asks"`
	Data         struct {
		First      uint64          `json:"U"`
		Last       uint64          `json:"u"`
		Before     uint64          `json:"pu"` // futures only
		Bid        json.RawMessage `json:"b"`
		BidSize    string          `json:"B"`
		Ask        json.RawMessage `json:"a"`
		AskSize    string          `json:"A"`
		Event      string          `json:"e"`
		EventTime  int64           `json:"E"`
		Symbol     string          `json:"s"`
		Depth      json.RawMessage `json:"S"`
		Traded     int64           `json:"T"`
		PairSymbol string          `json:"ps"`
	} `json:"data"`
}

// feedBuilder collects the frames of a feed. The snapshot may be anywhere near the start.
type feedBuilder struct {
	futures  bool
	first    int64 // when the first frame was received
	snapshot *wire
	depths   []depth
	bests    map[uint64]quote
}

type depth struct {
	at   int64
	wire wire
}

// readFeed reads the recording of one instrument, up to a limit of recorded time; 0 means all. It returns an error if updates are missing
// between two others. The feed ends with a frame that has a best quote.
func readFeed(path, channel string, futures bool, limit time.Duration) (*feed, error) {
	r, err := recording.Open(path, nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	g := feedBuilder{futures: futures, bests: map[uint64]quote{}}
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if g.first == 0 {
			g.first = f.Time
		}
		if limit > 0 && f.Time-g.first > int64(limit) {
			break
		}
		if err := g.add(f); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, f.Line, err)
		}
	}
	out, err := g.feed(channel)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// add processes a frame, which is valid only during the call.
func (g *feedBuilder) add(f recording.Frame) error {
	isDepth := bytes.Contains(f.Data, []byte(`@depth`))
	isBest := bytes.Contains(f.Data, []byte(`@bookTicker"`))
	isSnapshot := bytes.HasPrefix(f.Data, []byte(`{"lastUpdateId"`))
	if !isDepth && !isBest && !isSnapshot {
		return nil
	}
	var w wire
	if err := json.Unmarshal(f.Data, &w); err != nil {
		return err
	}
	switch {
	case isDepth:
		g.depths = append(g.depths, depth{f.Time, w})
	case isSnapshot:
		g.snapshot = &w
	default:
		q := quote{bids: w.Data.BidSize, asks: w.Data.AskSize}
		if err := errors.Join(json.Unmarshal(w.Data.Bid, &q.bid), json.Unmarshal(w.Data.Ask, &q.ask)); err != nil {
			return err
		}
		g.bests[w.Data.Last] = q
	}
	return nil
}

// feed builds the feed by the exchange's rule: it drops updates that the snapshot includes, the first remaining update must straddle the
// snapshot, and each further one must follow the one before.
func (g *feedBuilder) feed(channel string) (*feed, error) {
	if g.snapshot == nil {
		return nil, errors.New("the recording has no snapshot of the book")
	}
	out := &feed{channel: channel}
	last := g.snapshot.LastUpdateID
	out.from = last
	out.start = appendChanges(out.start, "b", g.snapshot.Bids, last)
	out.start = appendChanges(out.start, "a", g.snapshot.Asks, last)
	end := 0 // index after the last frame with a best quote
	for i := range g.depths {
		d := &g.depths[i].wire.Data
		if d.Last < last || !g.futures && d.Last == last {
			continue
		}
		if err := g.follows(d.First, d.Before, last, len(out.frames) == 0); err != nil {
			return nil, err
		}
		last = d.Last
		f := frame{at: g.depths[i].at, update: last}
		var bids, asks [][2]string
		if err := errors.Join(json.Unmarshal(d.Bid, &bids), json.Unmarshal(d.Ask, &asks)); err != nil {
			return nil, fmt.Errorf("update %d: %w", last, err)
		}
		f.changes = appendChanges(appendChanges(f.changes, "b", bids, last), "a", asks, last)
		if q, ok := g.bests[last]; ok {
			f.best = &q
		}
		out.frames = append(out.frames, f)
		if f.best != nil {
			end = len(out.frames)
		}
	}
	if end == 0 {
		return nil, errors.New("the recording has no best quote for any update")
	}
	out.frames = out.frames[:end]
	return out, nil
}

// follows returns an error if an update does not follow the last one.
func (g *feedBuilder) follows(first, before, last uint64, straddles bool) error {
	switch {
	case straddles && g.futures && first <= last, straddles && !g.futures && first <= last+1:
		return nil
	case straddles:
		return fmt.Errorf("update %d does not straddle the snapshot, which is of %d", first, last)
	case g.futures && before != last, !g.futures && first != last+1:
		return fmt.Errorf("update %d does not follow %d", first, last)
	}
	return nil
}

func appendChanges(to []change, side string, levels [][2]string, update uint64) []change {
	for _, l := range levels {
		to = append(to, newChange(side, l[0], l[1], update))
	}
	return to
}

// isFutures reports whether an instrument's recording follows the rule of futures.
func isFutures(instrument string) bool { return !strings.HasPrefix(instrument, "spot") }

// changed returns the number of changes in a feed.
func (f *feed) changed() int {
	n := 0
	for i := range f.frames {
		n += len(f.frames[i].changes)
	}
	return n
}
