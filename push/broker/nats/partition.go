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

// partition is the state of one stream in this process.
type partition struct {
	broker *Broker // immutable after prepare, like all up to window
	ns     *namespace
	id     broker.Partition
	stream string
	hole   hole
	prefix string // of its subjects
	window *window

	looking sync.Mutex // held while the stream is inspected, and perhaps made or changed

	mu        sync.Mutex
	history   push.History // guarded by mu, like all that follows
	epoch     string
	created   time.Time // when the stream was created
	known     uint64    // the highest offset that this process knows to be stored
	sure      connState
	deletedBy string // ID of the advisory of a deletion by another program, until it has led to a new epoch
	grown     uint64 // see metaGrown
	floor     uint64 // see metaFloor

	removals bool   // see metaRemovals
	seen     uint64 // see head
	absent   uint64
	horizon  horizon
	holds    map[*attachment]struct{}
}

// connState identifies the connections through which the epoch was last confirmed. Another connection may lead to another server, and to another
// stream.
type connState struct {
	publish, read uint64 // how often each connection had been made again
	making        bool   // the stream was gone, and its successor may exist already
}

// horizon is a remembered answer of tooOld, by the clock of the server.
type horizon struct {
	offset uint64    // no later offset is too old
	until  time.Time // when the server has to be asked again
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

// position returns the newest position that this process knows.
func (p *partition) position() push.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return push.Position{Epoch: p.epoch, Offset: p.known}
}

// learn notes that an offset of an epoch is stored.
func (p *partition) learn(at push.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.Epoch == p.epoch {
		p.known = max(p.known, at.Offset)
	}
}

// look asks the server for the newest position, and finds out whether the epoch has changed. It has if the stream was made again, is gone (look
// then makes it) or has lost publications, or if another node found one of these. The attachments then reset their followers.
func (p *partition) look(ctx context.Context) (push.Position, error) {
	p.looking.Lock()
	defer p.looking.Unlock()
	return p.lookHeld(ctx)
}

// lookHeld is look for a caller that holds looking.
func (p *partition) lookHeld(ctx context.Context) (push.Position, error) {
	before := p.position() // the server's answer cannot be lower
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
	deletedBy := p.deletedBy
	p.mu.Unlock()
	if loss.why == "" && deletedBy != "" && info.Config.Metadata[metaGeneration] != deletedBy {
		loss, generation = hole{"another program deleted publications", info.State.LastSeq}, deletedBy // the same on all nodes
	}
	if loss.why != "" {
		p.broker.opts.Logger.Error("publications lost in the broker, clients resubscribe without recovery", "stream", p.stream, "reason", loss.why)
		if info, err = p.raise(ctx, info, generation, loss.through); err != nil {
			return push.Position{}, err
		}
	}
	p.mu.Lock()
	if p.deletedBy == deletedBy {
		p.deletedBy = ""
	}
	p.mu.Unlock()
	return p.take(info, sure), nil
}

// noteDeletion notes that another program deleted publications.
func (p *partition) noteDeletion(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deletedBy = id
}

// view is the known position and its confirmation, as they were before a request to the server.
type view struct {
	push.Position
	sure connState
}

func (p *partition) view() view {
	p.mu.Lock()
	defer p.mu.Unlock()
	return view{push.Position{Epoch: p.epoch, Offset: p.known}, p.sure}
}

// confirm makes sure that an answer of the server belongs to the epoch of before, a view from before the request. asked are the connections
// right after the request. offset is the one that the answer assigned to a new publication, or 0.
func (p *partition) confirm(ctx context.Context, before view, asked connState, offset uint64) error {
	if isSure, err := p.isStill(before, asked, offset); isSure || err != nil {
		return err
	}
	p.looking.Lock()
	defer p.looking.Unlock()
	if _, err := p.isStill(before, asked, offset); err != nil { // another goroutine has looked meanwhile
		return err
	}
	if _, err := p.lookHeld(ctx); err != nil {
		return err
	}
	_, err := p.isStill(before, asked, offset)
	return err
}

// isStill reports whether an answer certainly belongs to the epoch of before. If that epoch has ended, it returns an error.
func (p *partition) isStill(before view, asked connState, offset uint64) (isSure bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch != before.Epoch {
		return false, errNewLife
	}
	return before.sure == asked && !p.sure.making && (offset == 0 || offset > before.Offset), nil
}

// errNewLife means that the epoch has changed during an operation, whose effect is therefore unknown.
var errNewLife = errors.New("the epoch of the partition changed during the operation")

// mostAgain is how often a request is repeated if its answer may have been lost with a connection.
const mostAgain = 3

// mostDetails is up to how many deleted messages their list is requested.
const mostDetails = 10_000

// inspect requests the state of the stream, and makes the stream if it does not exist.
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
		// The server reports lost messages only together with the list of deleted ones, and finds losses when it starts.
		if detailed, err := s.Info(timed, jetstream.WithDeletedDetails(true)); err == nil {
			info.State.Lost = detailed.State.Lost
		}
	}
	return info, nil
}

// hole is a known loss of publications that a stream had.
type hole struct {
	why     string // empty if nothing is lost
	through uint64 // the last offset that may be lost: above it the stream is complete
}

// lossIn returns the loss of a stream, compared with an earlier state. If only the end of the stream is lost, all publications that are left are
// complete.
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
	return hole{why: fmt.Sprintf("the stream ends at offset %d and had reached %d", info.State.LastSeq, than)}
}

// holeIn returns the loss in the middle of a file store that was not closed: the number of messages that are missing and that no limit explains.
// If a checksum in a file is wrong, the server silently leaves out the rest of the file. The caller asks before it changes the stream. In a
// table, rows come and go, so a loss there is not noticed.
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
	if isLimited { // each publication since the last note may have evicted another
		explained += info.State.LastSeq - noted.Seen
	}
	n := absent(info)
	if n <= explained {
		return hole{}
	}
	out := hole{fmt.Sprintf("%d missing in the middle of the stream", n-explained), info.State.LastSeq}
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

// absent returns how many publications a stream does not store any more. If the stream has an age limit, those at its beginning do not count.
func absent(info *jetstream.StreamInfo) uint64 {
	if info.Config.MaxAge > 0 {
		return uint64(max(info.State.NumDeleted, 0))
	}
	return info.State.LastSeq - info.State.Msgs
}

// lostIn describes the messages that the server reports as lost, "" if there are none. The server may not know the messages, only how many bytes
// it could not read when it started. For an embedded server the bytes alone do not count: a process that is killed may leave half of a message
// that it never acknowledged, and if the machine stopped, the folder has another generation anyway. An embedded server forgets losses when it
// restarts, so a later report is another loss.
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

// raise gives the stream another generation. Up to the offset missing, publications may be missing.
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

// amend changes the stream's metadata. The caller holds looking.
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

// noteRemoval notes in the stream's metadata that the table has removals, before the first of them can expire. As long as there are none,
// nothing expires that a client needs.
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
		return fmt.Errorf("%w: the first removal cannot be recorded: %w", broker.ErrBusy, err)
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

// newGeneration returns a name that was never used before: if a copy is restored twice, it must get two different ones.
func newGeneration() string { return strconv.FormatInt(time.Now().UnixNano(), 36) }

// epochOf returns the epoch of the partition: see the package comment.
func (p *partition) epochOf(info *jetstream.StreamInfo) string {
	h := fnv.New64a()
	folder := ""
	if p.broker.host != nil && p.ns.Durable {
		folder = p.broker.host.generation()
	}
	_, _ = fmt.Fprintf(h, "%d %d %d %s %s", info.Created.UnixNano(), p.id.Index, p.ns.Partitions, info.Config.Metadata[metaGeneration], folder)
	return strconv.FormatUint(h.Sum64(), 36)
}

// take stores the server's answer. If the epoch has changed, it tells the attachments.
func (p *partition) take(info *jetstream.StreamInfo, sure connState) push.Position {
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

// attach registers a follower.
func (p *partition) attach(ctx context.Context, f broker.Follower) (*attachment, error) {
	start, err := p.look(ctx)
	if err != nil {
		return nil, p.broker.closedOr(err)
	}
	a := newAttachment(p, f, start)
	p.broker.mu.RLock()
	defer p.broker.mu.RUnlock()
	if p.broker.partitions.IsClosed() {
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
