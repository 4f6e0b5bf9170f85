package gateway

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/gateway/settings"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
)

const (
	// pageRows and mostPageRows are how many rows a page has, if the client does not say, and at most; pageBytes bounds it besides.
	pageRows, mostPageRows = 512, 4096
	pageBytes              = 64 << 10
	// catchUpRows and catchUpBytes bound what has changed, in the answer with which a map subscription begins. SDKs call the table complete
	// when they have that answer, so it should hold all there is.
	catchUpRows, catchUpBytes = 4096, 256 << 10
)

// mapStep is one step of a map subscription: a page of the rows, or the stream of what has changed. With the last page the client is subscribed,
// as of the position of the first: what has changed since comes with it. The server keeps nothing between two steps.
type mapStep struct {
	session *hub.Session
	request *protocol.SubscribeRequest
	asked   settings.Settings // what was asked for with the first step
	with    start
	answer  answering
}

// subscribeMap carries out one step.
func subscribeMap(ctx context.Context, h *hub.Session, r *protocol.SubscribeRequest, with start, answer answering) error {
	s := &mapStep{session: h, request: r, with: with, answer: answer}
	switch {
	case r.Filter != nil:
		return push.ErrNotAvailable.WithMessage("filters are not supported")
	case r.Phase == protocol.PhaseState:
		return s.state(ctx)
	case r.Phase == protocol.PhaseStream:
		return s.stream(ctx)
	default:
		return push.ErrBadRequest.WithMessage("subscribe.phase %d is not valid for a map: use %d for its rows, or %d for the changes since a position",
			r.Phase, protocol.PhaseState, protocol.PhaseStream)
	}
}

// state answers a page of rows.
func (s *mapStep) state(ctx context.Context) (err error) {
	r := s.request
	ask := hub.RowsRequest{Channel: r.Channel, Budget: channel.Budget{Entries: pageRows, Bytes: pageBytes}}
	ask.Delta, _ = push.ParseDelta(r.Delta)
	if r.Limit > 0 {
		ask.Budget.Entries = min(int(r.Limit), mostPageRows)
	}
	if r.Cursor == "" {
		s.asked, err = settings.Parse("subscribe.data", r.Data)
	} else {
		ask.Since = &r.Position
		ask.Cursor, s.asked, err = cutCursor(r.Cursor)
	}
	if err != nil {
		return err
	}
	page, err := s.session.Rows(ctx, ask)
	if err != nil {
		return err
	}
	if page.Cursor == "" {
		return s.live(ctx, page, false)
	}
	return s.answer(protocol.SubscribeResult{
		Phase:    protocol.PhaseState,
		Position: page.Position,
		State:    publicationsOf(page.Deliveries),
		Quoted:   isQuoted(page.Delta), // SDKs read the data of all pages when they know what was agreed on, with the last
		Cursor:   joinCursor(page.Cursor, s.asked),
	}, page.Position)
}

// stream subscribes a client that has all rows as of a position.
func (s *mapStep) stream(ctx context.Context) (err error) {
	s.asked, err = settings.Parse("subscribe.data", s.request.Data)
	if err != nil {
		return err
	}
	return s.live(ctx, hub.Rows{Position: s.request.Position}, s.request.Recover)
}

// live subscribes a client to which nothing but the last rows is missing. recovers says that it was subscribed before.
func (s *mapStep) live(ctx context.Context, last hub.Rows, recovers bool) error {
	ask := s.asked.Request(s.request)
	ask.ChanInfo, ask.JoinLeave = s.with.info, s.with.joins
	ask.Since, ask.Table, ask.Joins = &last.Position, true, !recovers
	ask.Budget = channel.Budget{Entries: catchUpRows, Bytes: catchUpBytes}
	return s.session.Subscribe(ctx, ask, func(told hub.Subscribed) error {
		inOrder(told.Deliveries)
		result := subscribeResult(s.request, &told)
		result.Recovered, result.WasRecovering = recovers, recovers
		result.State = publicationsOf(last.Deliveries)
		result.Data = s.asked.Subscribed(&told)
		return s.answer(result, told.Position)
	})
}

// inOrder brings a sweep that came to its end in the order of offsets, and gives each row its own: SDKs take a publication without one for
// the end of a catch-up, and would go on behind it though their application has not seen what follows.
func inOrder(ds []channel.Delivery) {
	if len(ds) == 0 || ds[len(ds)-1].Offset == 0 {
		return // there is more of the sweep: the position stays what it was
	}
	slices.SortFunc(ds, func(a, b channel.Delivery) int { return cmp.Compare(a.Entry.Offset, b.Entry.Offset) })
	for i := range ds {
		ds[i].Offset = ds[i].Entry.Offset
	}
}

// SDKs send the data of a subscription with the first step only, and nothing else of it with the last: what it asks for travels in the
// cursor, as an interval in milliseconds.
const cursorInterval = "~"

func joinCursor(cursor string, asked settings.Settings) string {
	if asked.Interval == nil {
		return cursor
	}
	return cursor + cursorInterval + strconv.FormatInt(*asked.Interval, 10)
}

// cutCursor takes a cursor apart. One that was not made by joinCursor cannot be continued from.
func cutCursor(cursor string) (rest string, asked settings.Settings, err error) {
	rest, interval, found := strings.Cut(cursor, cursorInterval)
	if !found {
		return rest, asked, nil
	}
	ms, err := strconv.ParseInt(interval, 10, 64)
	if err == nil {
		asked, err = settings.OfInterval(ms)
	}
	if err != nil {
		return "", asked, push.ErrUnrecoverablePosition
	}
	return rest, asked, nil
}
