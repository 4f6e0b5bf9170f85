package gateway

import (
	"net/http"
	"net/netip"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/gateway/inbox"
	"github.com/sluice-push/sluice/push/gateway/route"
	"github.com/sluice-push/sluice/push/hub"
)

// What the tests need to know of the bounds.
const HistoryBytes = historyBytes

// AddressOf is what counts as one address.
func AddressOf(remote string) netip.Addr {
	return new(Gateway).addressOf(&http.Request{RemoteAddr: remote})
}

// PublicationOf is what a delivery says to a client.
func PublicationOf(d *channel.Delivery) push.Publication { return publicationOf(d, push.NoDelta) }

// Carriers are those of all clients.
func (g *Gateway) Carriers() (all []hub.Carrier) {
	for c := range g.clients() {
		all = append(all, c.carrier)
	}
	return all
}

// Held returns how many bytes the carriers hold for their clients.
func (g *Gateway) Held() (n int) {
	for c := range g.clients() {
		n += c.carrier.Queued()
	}
	return n
}

// InOrder brings the changes in the answer to a map subscription in order.
func InOrder(ds []channel.Delivery) { inOrder(ds) }

// MostQuestions is how many frames may be on their way to other nodes, and how many answers.
const MostQuestions = mostQuestions

// MostStrange is how many of them to nodes that are not in the list.
const MostStrange = mostStrange

// NodeListAge is for how long a list of nodes is used.
const NodeListAge = nodeListAge

// MostInbox is how many frames of one client may wait.
const MostInbox = inbox.Most

// AnswersUnderWay returns how many answers are on their way to other nodes.
func (g *Gateway) AnswersUnderWay() int {
	g.emulation.mu.Lock()
	defer g.emulation.mu.Unlock()
	return g.emulation.answers
}

// PieceBytes is how much of a frame goes to another node in one message.
const PieceBytes = pieceBytes

// Users returns how many users have sessions that are counted.
func (g *Gateway) Users() int { return g.users.Len() }

// Drained is how many of n clients should have been asked after a part of a time.
var Drained = drained

// MostQueries is how many requests for routes may be answered at a time.
const MostQueries = mostQueries

// Answered makes c a client that is connected, as far as Sessions can see.
func (c *Client) Answered(g *Gateway, known route.Client) {
	c.gateway, c.connected = g, g.clock()
	c.routing.Store(&routing{client: known})
	c.answered.Store(true)
}
