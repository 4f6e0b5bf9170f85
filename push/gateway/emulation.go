package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// Why commands of an emulated client are refused.
var (
	// ErrNoSession means that the node does not exist, or that no client on it has the secret: the client is to connect again.
	ErrNoSession = errors.New("no such session: connect again")
	// ErrInboxFull means that the client has sent more than it reads answers.
	ErrInboxFull = errors.New("too many commands are waiting: read the answers first")
)

const (
	// mostInbox is how many frames of one client may wait.
	mostInbox = 1024
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
	asked   map[uint64]chan string
	strange int    // questions in asked to nodes that are not in nodes
	asks    uint64 // questions since the gateway began
	answers int    // on their way
}

// letter is a message between the gateways of two nodes: a question with the commands of a client, or its answer.
type letter struct {
	Number uint64 `json:"n"`              // of the question
	From   string `json:"from,omitempty"` // the node that asks; empty in an answer
	Secret string `json:"secret,omitempty"`
	Frame  []byte `json:"frame,omitempty"`  // or the next piece of it
	At     int    `json:"at,omitempty"`     // where in the frame the piece begins, in bytes
	More   bool   `json:"more,omitempty"`   // other pieces follow, each after the answer to the one before
	Result string `json:"result,omitempty"` // of an answer
}

// The results in an answer.
const (
	resultTaken   = "taken"
	resultUnknown = "unknown"
	resultFull    = "full"
)

func newEmulation(g *Gateway) *emulation {
	e := &emulation{gateway: g, clients: map[string]*Client{}, asked: map[uint64]chan string{}}
	g.hub.ReceiveNode(e.receive)
	return e
}

// open returns the inbox of a new client.
func (e *emulation) open(c *Client) *inbox {
	in := &inbox{secret: rand.Text()} // 128 random bits
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clients[in.secret] = c
	return in
}

// close forgets a client and what it sent.
func (e *emulation) close(c *Client) {
	e.mu.Lock()
	delete(e.clients, c.inbox.secret)
	e.mu.Unlock()
	c.inbox.close()
}

// Emulate passes a frame of commands to the emulated client with a secret, on the node with an ID: ConnectResult.Session and ConnectResult.Node of
// its connect reply. It returns when that node has the frame, not when the commands are carried out. The frame becomes the gateway's.
//
// Errors are [ErrNoSession], [ErrInboxFull], or that the broker or ctx has failed.
func (g *Gateway) Emulate(ctx context.Context, node, secret string, frame []byte) error {
	var result string
	var err error
	if len(node) > mostName || len(secret) > mostName {
		result = resultUnknown
	} else if node == g.hub.ID() {
		result = g.emulation.take(secret, frame)
	} else if result, err = g.emulation.ask(ctx, node, secret, frame); err != nil {
		return err
	}
	switch result {
	case resultTaken:
		return nil
	case resultFull:
		g.counts.inbox.Add(1)
		return ErrInboxFull
	default:
		g.counts.session.Add(1)
		return ErrNoSession
	}
}

// take gives a frame to a client of this node.
func (e *emulation) take(secret string, frame []byte) (result string) {
	e.mu.Lock()
	c := e.clients[secret]
	e.mu.Unlock()
	switch {
	case c == nil:
		return resultUnknown
	case !c.Enqueue(frame):
		return resultFull
	}
	return resultTaken
}

// takePiece gives what another node sends to a client of this node: a frame, or a piece of one.
func (e *emulation) takePiece(l *letter) (result string) {
	if l.At == 0 && !l.More {
		return e.take(l.Secret, l.Frame)
	}
	e.mu.Lock()
	c := e.clients[l.Secret]
	e.mu.Unlock()
	if c == nil {
		return resultUnknown
	}
	frame, result := c.inbox.join(l, c.gateway.clock(), c.gateway.options.FrameBytes)
	if result == resultTaken && !l.More {
		return e.take(l.Secret, frame)
	}
	return result
}

// ask gives a frame to another node, in pieces if it is long.
func (e *emulation) ask(ctx context.Context, node, secret string, frame []byte) (result string, err error) {
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
		if result, err = e.askPiece(ctx, node, &l, answer); result != resultTaken || !l.More {
			return result, err
		}
		l.At = next
	}
}

// askPiece sends one message to another node and waits for the answer.
func (e *emulation) askPiece(ctx context.Context, node string, l *letter, answer <-chan string) (result string, err error) {
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
		return resultUnknown, ctx.Err() // unknown: a node that does not answer is gone
	}
}

// begin notes a question, and returns its number and the channel of its answer, or the result if there are too many questions.
func (e *emulation) begin(known bool) (number uint64, answer chan string, result string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !known && e.strange >= mostStrange:
		return 0, nil, resultUnknown // most probably there is no such node
	case len(e.asked) >= mostQuestions:
		return 0, nil, resultFull
	}
	if !known {
		e.strange++
	}
	e.asks++
	answer = make(chan string, 1)
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

// inbox has the frames of an emulated client that are not carried out yet.
type inbox struct {
	secret string

	mu      sync.Mutex // guards what follows
	frames  [][]byte
	bytes   int
	running bool // a goroutine carries out what is in frames
	closed  bool
	parts   map[question]*part
}

// question names a question of another node.
type question struct {
	node   string
	number uint64
}

// part is the beginning of a frame that comes in pieces.
type part struct {
	frame []byte
	last  int64 // when the last piece came, by the gateway's clock
}

// join adds a piece to its frame, and returns the frame with the last one. All beginnings together have at most so many bytes. Those are forgotten to
// which no piece has come for so long that the node that sends them has given up.
func (in *inbox) join(l *letter, now int64, most int) (frame []byte, result string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	bytes := len(l.Frame)
	for q, p := range in.parts {
		if now-p.last > 2*answerTimeout.Milliseconds() {
			delete(in.parts, q)
			continue
		}
		bytes += len(p.frame)
	}
	q := question{l.From, l.Number}
	p := in.parts[q]
	switch {
	case in.closed || (p == nil) != (l.At == 0) || p != nil && l.At != len(p.frame):
		delete(in.parts, q)
		return nil, resultUnknown
	case bytes > most:
		delete(in.parts, q)
		return nil, resultFull
	case p == nil:
		if in.parts == nil {
			in.parts = map[question]*part{}
		}
		p = new(part)
		in.parts[q] = p
	}
	p.frame, p.last = append(p.frame, l.Frame...), now
	if !l.More {
		delete(in.parts, q)
	}
	return p.frame, resultTaken
}

// put adds a frame, unless the inbox is full. begins reports that the caller has to start the goroutine that calls next.
func (in *inbox) put(frame []byte, most int) (taken, begins bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return true, false // as if it had come a bit later than the end
	}
	if len(in.frames) >= mostInbox || len(in.frames) > 0 && in.bytes+len(frame) > most {
		return false, false
	}
	in.frames = append(in.frames, frame)
	in.bytes += len(frame)
	begins = !in.running
	in.running = true
	return true, begins
}

// next returns the next frame, nil if there is none: then the goroutine is to end.
func (in *inbox) next() []byte {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.frames) == 0 {
		in.frames, in.running = nil, false
		return nil
	}
	frame := in.frames[0]
	in.frames = in.frames[1:]
	in.bytes -= len(frame)
	return frame
}

func (in *inbox) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed, in.frames, in.bytes, in.parts = true, nil, 0, nil
}

// Enqueue gives a frame of commands to an emulated client, and returns without waiting until they are carried out. It reports whether there was
// room; frames of up to Options.FrameBytes may wait. The frame becomes the client's.
func (c *Client) Enqueue(frame []byte) bool {
	if len(frame) == 0 {
		return true
	}
	taken, begins := c.inbox.put(frame, c.gateway.options.FrameBytes)
	if begins && !c.gateway.goUnlessClosing(c.work) {
		c.inbox.close()
	}
	return taken
}

// work carries out what is in the inbox, until the connection ends.
func (c *Client) work() {
	defer func() {
		if c.Recovered(recover()) {
			c.inbox.close()
		}
	}()
	for frame := c.inbox.next(); frame != nil; frame = c.inbox.next() {
		if c.ended.Load() {
			c.inbox.close()
			continue
		}
		c.Message(frame)
	}
}
