package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push/gateway/inbox"
)

// Why commands of an emulated client are refused.
var (
	// ErrNoSession means that the node does not exist, or that no client on it has the secret: the client is to connect again.
	ErrNoSession = errors.New("no such session: connect again")
	// ErrInboxFull means that the client has sent more than it reads answers.
	ErrInboxFull = errors.New("too many commands are waiting: read the answers first")
)

const (
	// mostQuestions is how many frames may be on their way to other nodes, and how many answers.
	mostQuestions = 1024
	// mostName is how long the ID of a node and a secret may be. No real one is longer, and brokers end a connection on which they are sent a subject
	// of some KiB.
	mostName = 64
	// answerTimeout is how long another node may take to say that it has the commands of one of its clients, or a piece of them.
	answerTimeout = 5 * time.Second
	// pieceBytes is how much of a frame goes to another node in one message, because brokers bound the length of messages. The frame is base64 twice
	// over in a message: it then has 57 KiB.
	pieceBytes = 32 << 10
)

// emulation takes the commands of clients whose connection carries only what the server sends. They come in requests beside it, to any node, with
// a secret that only the client has.
type emulation struct {
	gateway *Gateway
	nodes   nodeList

	mu      sync.Mutex         // guards what follows
	clients map[string]*Client // by secret
	asked   map[uint64]chan inbox.Result
	strange int    // questions in asked to nodes that are not in nodes
	asks    uint64 // questions since the gateway began
	answers int    // on their way
}

// letter is a message between the gateways of two nodes: a question with the commands of a client, or its answer.
type letter struct {
	Number uint64       `json:"n"`              // of the question
	From   string       `json:"from,omitempty"` // the node that asks; empty in an answer
	Secret string       `json:"secret,omitempty"`
	Frame  []byte       `json:"frame,omitempty"`  // or the next piece of it
	At     int          `json:"at,omitempty"`     // where in the frame the piece begins, in bytes
	More   bool         `json:"more,omitempty"`   // other pieces follow, each after the answer to the one before
	Result inbox.Result `json:"result,omitempty"` // of an answer
}

func newEmulation(g *Gateway) *emulation {
	e := &emulation{gateway: g, clients: map[string]*Client{}, asked: map[uint64]chan inbox.Result{}}
	g.hub.ReceiveNode(e.receive)
	return e
}

// clientInbox is the inbox of an emulated client, with the secret by which its commands find it.
type clientInbox struct {
	inbox.Inbox
	secret string
}

// open gives a new client its inbox.
func (e *emulation) open(c *Client) {
	c.inbox = &clientInbox{secret: rand.Text()} // 128 random bits
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clients[c.inbox.secret] = c
}

// close forgets a client and what it sent.
func (e *emulation) close(c *Client) {
	e.mu.Lock()
	delete(e.clients, c.inbox.secret)
	e.mu.Unlock()
	c.inbox.Close()
}

// Emulate passes a frame of commands to the emulated client with a secret, on the node with an ID: ConnectResult.Session and ConnectResult.Node of
// its connect reply. It returns when that node has the frame, not when the commands are carried out. The frame becomes the gateway's.
//
// Errors are [ErrNoSession], [ErrInboxFull], or that the broker or ctx has failed.
func (g *Gateway) Emulate(ctx context.Context, node, secret string, frame []byte) error {
	var result inbox.Result
	var err error
	if len(node) > mostName || len(secret) > mostName {
		result = inbox.Unknown
	} else if node == g.hub.ID() {
		result = g.emulation.take(secret, frame)
	} else if result, err = g.emulation.ask(ctx, node, secret, frame); err != nil {
		return err
	}
	switch result {
	case inbox.Taken:
		return nil
	case inbox.Full:
		g.counts.inbox.Add(1)
		return ErrInboxFull
	default:
		g.counts.session.Add(1)
		return ErrNoSession
	}
}

// take gives a frame to a client of this node.
func (e *emulation) take(secret string, frame []byte) (result inbox.Result) {
	e.mu.Lock()
	c := e.clients[secret]
	e.mu.Unlock()
	switch {
	case c == nil:
		return inbox.Unknown
	case !c.Enqueue(frame):
		return inbox.Full
	}
	return inbox.Taken
}

// takePiece gives what another node sends to a client of this node: a frame, or a piece of one.
func (e *emulation) takePiece(l *letter) (result inbox.Result) {
	if l.At == 0 && !l.More {
		return e.take(l.Secret, l.Frame)
	}
	e.mu.Lock()
	c := e.clients[l.Secret]
	e.mu.Unlock()
	if c == nil {
		return inbox.Unknown
	}
	piece := inbox.Piece{Node: l.From, Number: l.Number, Frame: l.Frame, At: l.At, More: l.More}
	frame, result := c.inbox.Join(&piece, c.gateway.clock(), inbox.Bounds{Bytes: c.gateway.options.FrameBytes, Age: 2 * answerTimeout.Milliseconds()})
	if result == inbox.Taken && !l.More {
		return e.take(l.Secret, frame)
	}
	return result
}

// ask gives a frame to another node, in pieces if it is long.
func (e *emulation) ask(ctx context.Context, node, secret string, frame []byte) (result inbox.Result, err error) {
	known := e.nodes.has(ctx, e.gateway, node)
	if err := ctx.Err(); err != nil {
		return "", err
	}
	number, answer, result := e.begin(known)
	if answer == nil {
		return result, nil
	}
	defer e.end(number, known)
	l := letter{Number: number, From: e.gateway.hub.ID(), Secret: secret}
	for {
		l.Frame = frame[l.At:min(l.At+pieceBytes, len(frame))]
		next := l.At + len(l.Frame)
		l.More = next < len(frame)
		if result, err = e.askPiece(ctx, node, &l, answer); result != inbox.Taken || !l.More {
			return result, err
		}
		l.At = next
	}
}

// askPiece sends one message to another node and waits for the answer.
func (e *emulation) askPiece(ctx context.Context, node string, l *letter, answer <-chan inbox.Result) (result inbox.Result, err error) {
	limited, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	question, _ := json.Marshal(l) // never fails
	if err := e.gateway.hub.SendNode(limited, node, question); err != nil {
		return "", err
	}
	select {
	case result = <-answer:
		return result, nil
	case <-limited.Done():
		return inbox.Unknown, ctx.Err() // unknown: a node that does not answer is gone
	}
}

// begin notes a question, and returns its number and the channel of its answer, or the result if there are too many questions.
func (e *emulation) begin(known bool) (number uint64, answer chan inbox.Result, result inbox.Result) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !known && e.strange >= mostStrange:
		return 0, nil, inbox.Unknown // most probably there is no such node
	case len(e.asked) >= mostQuestions:
		return 0, nil, inbox.Full
	}
	if !known {
		e.strange++
	}
	e.asks++
	answer = make(chan inbox.Result, 1)
	e.asked[e.asks] = answer
	return e.asks, answer, ""
}

// end forgets a question.
func (e *emulation) end(number uint64, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.asked, number)
	if !known {
		e.strange--
	}
}

// receive handles a message of another node. It does not block.
func (e *emulation) receive(message []byte) {
	var l letter
	if json.Unmarshal(message, &l) != nil {
		return // of another version
	}
	if l.From != "" {
		e.answer(l.From, letter{Number: l.Number, Result: e.takePiece(&l)})
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if answer := e.asked[l.Number]; answer != nil {
		select {
		case answer <- l.Result:
		default: // answered twice
		}
	}
}

// answer sends an answer from a goroutine. With very many under way, or while the gateway shuts down, the answer is left out.
func (e *emulation) answer(node string, l letter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.answers >= mostQuestions {
		return
	}
	g := e.gateway
	if g.goUnlessClosing(func() {
		ctx, cancel := context.WithTimeout(g.ctx, answerTimeout)
		defer cancel()
		text, _ := json.Marshal(l)          // never fails
		_ = g.hub.SendNode(ctx, node, text) // the node that asks does not wait for ever
		e.mu.Lock()
		defer e.mu.Unlock()
		e.answers--
	}) {
		e.answers++
	}
}

// Enqueue gives a frame of commands to an emulated client, and returns without waiting until they are carried out. It reports whether there was
// room; frames of up to Options.FrameBytes may wait. The frame becomes the client's.
func (c *Client) Enqueue(frame []byte) bool {
	if len(frame) == 0 {
		return true
	}
	taken, begins := c.inbox.Put(frame, c.gateway.options.FrameBytes)
	if begins && !c.gateway.goUnlessClosing(c.work) {
		c.inbox.Close()
	}
	return taken
}

// work carries out what is in the inbox, until the connection ends.
func (c *Client) work() {
	defer func() {
		if c.Recovered(recover()) {
			c.inbox.Close()
		}
	}()
	for frame := c.inbox.Next(); frame != nil; frame = c.inbox.Next() {
		if c.ended.Load() {
			c.inbox.Close()
			continue
		}
		c.Message(frame)
	}
}
