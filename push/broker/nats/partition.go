package nats

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// partition is one stream, as this process knows it.
type partition struct {
	broker *Broker // set at New, like all up to mu
	ns     *namespace
	id     broker.Partition
	stream string
	hole   hole
	prefix string // of its subjects
	window *window

	looking sync.Mutex // held while the stream is looked at and perhaps made anew: one at a time

	mu      sync.Mutex
	history push.History // guarded by mu, like all that follows
	epoch   string
	created time.Time // the stream
	known   uint64    // an offset that is in the store, and with it all that this process was told of
	sure    sureness
	meddler string // names what somebody else deleted, until it has led to a new life
	grown   uint64 // see metaGrown
	floor   uint64 // see metaFloor

	removals bool   // see metaRemovals
	seen     uint64 // see head
	absent   uint64
	horizon  horizon
	holds    map[*attachment]struct{}
}

// sureness is on what connection the epoch was last seen to be that of the stream. Through another one another stream may answer.
type sureness struct {
	publish, read uint64 // how often each connection had been made anew
	making        bool   // the stream was gone, and its successor may be there already
}

// horizon is how old publications are, by the clock of the server.
type horizon struct {
	offset uint64    // nothing above it is too old
	until  time.Time // when it has to be looked at again
}

func newPartition(b *Broker, n *namespace, index int) *partition {
	id := broker.Partition{Namespace: n.Name, Index: index}
	return &partition{
		broker: b, ns: n, id: id, stream: streamName(id), prefix: subjectPrefix(n.Namespace, index), history: n.History,
		window: newWindow(b.opts.Window, n.perSubject(n.History)), holds: make(map[*attachment]struct{}),
	}
}

func (p *partition) historyOf() push.History {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.history
}

func (p *partition) setHistory(h push.History) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.history, p.horizon = h, horizon{}
	p.window.setPerSubject(p.ns.perSubject(h))
}

// position returns the newest position this process knows of.
func (p *partition) position() push.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return push.Position{Epoch: p.epoch, Offset: p.known}
}

// learn notes that an offset of an epoch is in the store.
func (p *partition) learn(at push.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.Epoch == p.epoch {
		p.known = max(p.known, at.Offset)
	}
}

// look asks the server for the newest position. On the way it finds out whether a new life has begun: the stream was made anew, is
// gone, and then it is made, is shorter than it was, or another node found one of these. Then followers are reset.
func (p *partition) look(ctx context.Context) (push.Position, error) {
	p.looking.Lock()
	defer p.looking.Unlock()
	return p.lookHeld(ctx)
}

// lookHeld is look for a caller that holds the lock of looking.
func (p *partition) lookHeld(ctx context.Context) (push.Position, error) {
	before := p.position() // what the server says afterwards cannot be less
	sure := p.broker.connections()
	info, err := p.inspect(ctx)
	for range mostAgain {
		if !errors.Is(err, errReconnected) {
			break
		}
		sure = p.broker.connections()
		info, err = p.inspect(ctx)
	}
	if err != nil {
		return push.Position{}, err
	}
	loss, generation := p.lossIn(info, before), newGeneration()
	p.mu.Lock()
	meddler := p.meddler
	p.mu.Unlock()
	if loss.why == "" && meddler != "" && info.Config.Metadata[metaGeneration] != meddler {
		loss, generation = hole{"somebody else deleted some", info.State.LastSeq}, meddler // the same on all nodes
	}
	if loss.why != "" {
		p.broker.opts.Logger.Error("publications are gone from the broker; clients begin afresh", "stream", p.stream, "why", loss.why)
		if info, err = p.raise(ctx, info, generation, loss.through); err != nil {
			return push.Position{}, err
		}
	}
	p.mu.Lock()
	if p.meddler == meddler {
		p.meddler = ""
	}
	p.mu.Unlock()
	return p.take(info, sure), nil
}

// meddled notes that somebody else deleted publications.
func (p *partition) meddled(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.meddler = id
}

// view is what was known before something was asked of the server.
type view struct {
	push.Position
	sure sureness
}

func (p *partition) view() view {
	p.mu.Lock()
	defer p.mu.Unlock()
	return view{push.Position{Epoch: p.epoch, Offset: p.known}, p.sure}
}

// confirm makes sure that what the server answered belongs to the epoch of a view from before it was asked; asked are the connections
// right after that. offset is the one that was given to something new then, or 0.
func (p *partition) confirm(ctx context.Context, before view, asked sureness, offset uint64) error {
	if isSure, err := p.isStill(before, asked, offset); isSure || err != nil {
		return err
	}
	p.looking.Lock()
	defer p.looking.Unlock()
	if _, err := p.isStill(before, asked, offset); err != nil { // somebody else has looked
		return err
	}
	if _, err := p.lookHeld(ctx); err != nil {
		return err
	}
	_, err := p.isStill(before, asked, offset)
	return err
}

// isStill reports whether there is no doubt that an answer belongs to the epoch of before. It fails when that has ended.
func (p *partition) isStill(before view, asked sureness, offset uint64) (isSure bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch != before.Epoch {
		return false, errNewLife
	}
	return before.sure == asked && !p.sure.making && (offset == 0 || offset > before.Offset), nil
}

// errNewLife is why something cannot be said to have happened.
var errNewLife = errors.New("a new life of the partition began meanwhile")

// mostAgain is how often a question is asked again whose answer may have been lost with a connection.
const mostAgain = 3

// mostDetails is how long a list of deleted messages may be.
const mostDetails = 10_000

// inspect asks for the stream, and makes it when it is not there any more.
func (p *partition) inspect(ctx context.Context) (*jetstream.StreamInfo, error) {
	timed, cancel := p.broker.unlessBack(ctx)
	defer cancel()
	s, err := p.broker.js.Stream(timed, p.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		p.mu.Lock()
		p.sure.making = true
		p.mu.Unlock()
		s, err = p.broker.js.CreateStream(timed, p.config())
	}
	if err != nil && errors.Is(context.Cause(timed), errReconnected) {
		err = errReconnected
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s at %s: %w", p.stream, p.broker.where(), err)
	}
	info := s.CachedInfo()
	if p.view().sure != p.broker.connections() && info.State.NumDeleted < mostDetails {
		// What a server has lost it only says together with all that was deleted, and it finds out when it starts.
		if detailed, err := s.Info(timed, jetstream.WithDeletedDetails(true)); err == nil {
			info.State.Lost = detailed.State.Lost
		}
	}
	return info, nil
}

// hole is what is gone from a stream that had it, as far as that is known.
type hole struct {
	why     string // empty: nothing is
	through uint64 // the last offset that may be gone: what is kept above it is complete
}

// lossIn says whether the stream has less than it had before. What is gone at its end was in nobody's way: all that is left is complete.
func (p *partition) lossIn(info *jetstream.StreamInfo, before push.Position) hole {
	if lost := p.lostIn(info); lost != "" && lost != info.Config.Metadata[metaLost] {
		through := info.State.LastSeq
		if known := info.State.Lost.Msgs; len(known) > 0 {
			through = slices.Max(known)
		}
		return hole{"the server lost " + lost, through}
	}
	if before.Epoch == "" {
		if p.hole.why != "" {
			return p.hole
		}
		if h := p.broker.host; h != nil && p.ns.Durable {
			if noted := h.noted(p.stream); noted.Created.Equal(info.Created) && info.State.LastSeq < noted.Offset {
				return shorter(info, noted.Offset)
			}
		}
		return hole{}
	}
	if before.Epoch == p.epochOf(info) && info.State.LastSeq < before.Offset {
		return shorter(info, before.Offset)
	}
	return hole{}
}

func shorter(info *jetstream.StreamInfo, than uint64) hole {
	return hole{why: fmt.Sprintf("it ends at %d, and had come to %d", info.State.LastSeq, than)}
}

// holeIn says whether a file store that was not closed has less in its middle than limits explain: the server leaves out the rest of a file from where
// its checksums are wrong, and says nothing. It is asked before anything is changed. Of tables it is not known, where rows come and go.
func (p *partition) holeIn(ctx context.Context, s jetstream.Stream) hole {
	info := s.CachedInfo()
	if p.broker.host == nil || !p.ns.Durable || p.ns.Mode != push.Stream {
		return hole{}
	}
	noted := p.broker.host.noted(p.stream)
	if !noted.Created.Equal(info.Created) || noted.Seen > info.State.LastSeq {
		return hole{}
	}
	explained := noted.Absent
	isLimited := info.Config.MaxMsgsPerSubject > 0
	if isLimited { // each publication since may have evicted one
		explained += info.State.LastSeq - noted.Seen
	}
	n := absent(info)
	if n <= explained {
		return hole{}
	}
	out := hole{fmt.Sprintf("%d in its middle are gone", n-explained), info.State.LastSeq}
	if !isLimited && info.State.NumDeleted < mostDetails {
		if detailed, err := s.Info(ctx, jetstream.WithDeletedDetails(true)); err == nil {
			out.through = detailed.State.FirstSeq - 1
			if deleted := detailed.State.Deleted; len(deleted) > 0 {
				out.through = slices.Max(deleted)
			}
		}
	}
	return out
}

// absent is how many publications a stream does not keep any more. Those at its beginning are not counted if they go by themselves.
func absent(info *jetstream.StreamInfo) uint64 {
	if info.Config.MaxAge > 0 {
		return uint64(max(info.State.NumDeleted, 0))
	}
	return info.State.LastSeq - info.State.Msgs
}

// lostIn describes what the server knows to have lost of a stream. It may not know the messages, only how many bytes it could not
// read when it started. For an embedded server that is nothing: a process that is killed may leave half of what it never acknowledged,
// and when the machine stopped the folder is new anyway. It forgets with each start: what it says then is another loss.
func (p *partition) lostIn(info *jetstream.StreamInfo) string {
	lost, isEmbedded := info.State.Lost, p.broker.host != nil
	if lost == nil || len(lost.Msgs) == 0 && (lost.Bytes == 0 || isEmbedded) {
		return ""
	}
	text := fmt.Sprintf("%d messages, %d bytes", len(lost.Msgs), lost.Bytes)
	if len(lost.Msgs) > 0 {
		text += fmt.Sprintf(", from %d", lost.Msgs[0])
	}
	if isEmbedded {
		text += ", found by " + p.broker.conn.ConnectedServerId()
	}
	return text
}

// raise gives the stream another generation. Up to an offset some may be missing.
func (p *partition) raise(ctx context.Context, info *jetstream.StreamInfo, generation string, missing uint64) (*jetstream.StreamInfo, error) {
	floor, _ := strconv.ParseUint(info.Config.Metadata[metaFloor], 10, 64)
	info, err := p.amend(ctx, info, map[string]string{
		metaGeneration: generation,
		metaLost:       p.lostIn(info),
		metaFloor:      strconv.FormatUint(max(floor, missing), 10),
	})
	if err != nil {
		return nil, fmt.Errorf("stream %s: begin a new generation: %w", p.stream, err)
	}
	return info, nil
}

// amend changes what the stream's metadata says. The caller holds the lock of looking.
func (p *partition) amend(ctx context.Context, info *jetstream.StreamInfo, change map[string]string) (*jetstream.StreamInfo, error) {
	timed, cancel := p.broker.timed(ctx)
	defer cancel()
	c := info.Config
	c.Metadata = maps.Clone(info.Config.Metadata)
	maps.Copy(c.Metadata, change)
	s, err := p.broker.js.UpdateStream(timed, c)
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

// noteRemoval notes with the stream that there are removals in the table, before the first can have been forgotten: as long as there are none,
// nothing a client has to know of is ever forgotten.
func (p *partition) noteRemoval(ctx context.Context) error {
	p.looking.Lock()
	defer p.looking.Unlock()
	if p.hasRemovals() {
		return nil
	}
	info, err := p.inspect(ctx)
	if err == nil {
		_, err = p.amend(ctx, info, map[string]string{metaRemovals: "true"})
	}
	if err != nil {
		return fmt.Errorf("%w: that there are removals cannot be noted: %w", broker.ErrBusy, err)
	}
	p.mu.Lock()
	p.removals = true
	p.mu.Unlock()
	return nil
}

func (p *partition) hasRemovals() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.removals
}

// newGeneration returns a name that was never used before: a copy that is put back twice must not have the same one twice.
func newGeneration() string { return strconv.FormatInt(time.Now().UnixNano(), 36) }

// epochOf names the life of the partition.
func (p *partition) epochOf(info *jetstream.StreamInfo) string {
	h := fnv.New64a()
	folder := ""
	if p.broker.host != nil && p.ns.Durable {
		folder = p.broker.host.generation()
	}
	_, _ = fmt.Fprintf(h, "%d %d %d %s %s", info.Created.UnixNano(), p.id.Index, p.ns.Partitions, info.Config.Metadata[metaGeneration], folder)
	return strconv.FormatUint(h.Sum64(), 36)
}

// take notes what the server said, and tells the attachments of a new life.
func (p *partition) take(info *jetstream.StreamInfo, sure sureness) push.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sure = sure
	epoch := p.epochOf(info)
	if p.epoch != epoch {
		isFirst := p.epoch == ""
		p.epoch, p.known, p.horizon = epoch, 0, horizon{}
		p.window.reset(epoch)
		if !isFirst {
			for a := range p.holds {
				a.trouble()
			}
		}
	}
	p.created, p.seen, p.absent = info.Created, info.State.LastSeq, absent(info)
	p.known = max(p.known, info.State.LastSeq)
	p.grown, _ = strconv.ParseUint(info.Config.Metadata[metaGrown], 10, 64)
	p.floor, _ = strconv.ParseUint(info.Config.Metadata[metaFloor], 10, 64)
	p.removals = info.Config.Metadata[metaRemovals] != ""
	return push.Position{Epoch: p.epoch, Offset: p.known}
}

// attach attaches a follower.
func (p *partition) attach(ctx context.Context, f broker.Follower) (*attachment, error) {
	start, err := p.look(ctx)
	if err != nil {
		return nil, p.broker.closedOr(err)
	}
	a := newAttachment(p, f, start)
	p.broker.mu.RLock()
	defer p.broker.mu.RUnlock()
	if p.broker.closed {
		return nil, broker.ErrClosed
	}
	p.mu.Lock()
	p.holds[a] = struct{}{}
	p.mu.Unlock()
	p.window.attach(a)
	p.broker.running.Go(a.run)
	return a, nil
}

// detachAll ends all attachments and does not wait for them.
func (p *partition) detachAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for a := range p.holds {
		a.cancel()
	}
}

func (p *partition) forget(a *attachment) {
	p.window.detach(a)
	p.mu.Lock()
	delete(p.holds, a)
	p.mu.Unlock()
}
