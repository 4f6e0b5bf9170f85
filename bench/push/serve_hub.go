package main

import (
	"bytes"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/gorilla/websocket"
	"github.com/nats-io/nats.go"

	"github.com/sluice-push/sluice/bench/internal/server"
)

// hubQueue is how many messages may wait for a client.
const hubQueue = 256

// hub is a push server as it is usually written with gorilla/websocket: for each client a goroutine that reads and one that writes what is
// in its channel, and a message that is prepared once for all. Who publishes waits for a client whose channel is full; hubs usually let it go, which would
// be the end of a run.
type hub struct {
	upgrader websocket.Upgrader
	running  sync.WaitGroup // reading and writing
	mu       sync.RWMutex
	clients  map[*hubClient]struct{} // guarded by mu; nil when the hub is closed
	topics   map[string][]*hubClient // likewise

	bus *nats.Conn // what brings publications to all of several hubs; nil: there is one
}

// hubClient is a client of a hub.
type hubClient struct {
	conn   *websocket.Conn
	queue  chan *websocket.PreparedMessage
	gone   chan struct{} // closed by the goroutine that reads
	topics []string      // that it is subscribed to; for that goroutine
}

// startHub starts a hub that is alone, or, with the address of a NATS server, one of several.
func startHub(ln net.Listener, busAddr string) (*server.Served, error) {
	h := &hub{
		upgrader: websocket.Upgrader{WriteBufferPool: new(sync.Pool)},
		clients:  make(map[*hubClient]struct{}), topics: make(map[string][]*hubClient),
	}
	if busAddr != "" {
		if err := h.join(busAddr); err != nil {
			return nil, err
		}
	}
	stop := server.UnderHTTP(ln, h.accept)
	return &server.Served{Conns: h.len, Close: func() {
		stop()
		if h.bus != nil {
			h.bus.Close()
		}
		h.close()
	}}, nil
}

// join connects the hub to a NATS server.
func (h *hub) join(addr string) error {
	conn, err := nats.Connect("nats://" + addr)
	if err != nil {
		return err
	}
	if _, err = conn.Subscribe(">", func(m *nats.Msg) { _ = h.deliver(m.Subject, m.Data) }); err == nil {
		err = conn.Flush()
	}
	if err != nil {
		conn.Close()
		return err
	}
	h.bus = conn
	return nil
}

// accept upgrades a connection and returns, so that nothing of the request is kept.
func (h *hub) accept(w http.ResponseWriter, r *http.Request) {
	conn, err := h.upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	c := &hubClient{conn: conn, queue: make(chan *websocket.PreparedMessage, hubQueue), gone: make(chan struct{})}
	h.mu.Lock()
	open := h.clients != nil
	if open {
		h.clients[c] = struct{}{}
		h.running.Add(2)
	}
	h.mu.Unlock()
	if !open {
		_ = conn.Close()
		return
	}
	go h.read(c)
	go h.write(c)
}

// read handles what a client says until it is gone.
func (h *hub) read(c *hubClient) {
	defer h.running.Done()
	for {
		_, msg, err := c.conn.ReadMessage()
		if err != nil || !h.handle(c, msg) {
			break
		}
	}
	close(c.gone) // first: who publishes may be waiting for it, with the lock
	h.mu.Lock()
	delete(h.clients, c)
	for _, topic := range c.topics {
		h.topics[topic] = slices.DeleteFunc(h.topics[topic], func(other *hubClient) bool { return other == c })
	}
	h.mu.Unlock()
	_ = c.conn.Close()
}

// handle subscribes or publishes. It is false when the message is neither.
func (h *hub) handle(c *hubClient, msg []byte) bool {
	verb, rest, _ := bytes.Cut(msg, []byte(" "))
	switch string(verb) {
	case "sub":
		h.subscribe(c, strings.Fields(string(rest)))
		return c.send("ok") == nil
	case "pub":
		topic, data, _ := bytes.Cut(rest, []byte(" "))
		return h.publish(string(topic), data) == nil
	default:
		return false
	}
}

func (h *hub) subscribe(c *hubClient, topics []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.topics = append(c.topics, topics...)
	for _, topic := range topics {
		h.topics[topic] = append(h.topics[topic], c)
	}
}

// publish publishes a message to all that are subscribed, at all hubs.
func (h *hub) publish(topic string, data []byte) error {
	if h.bus != nil {
		return h.bus.Publish(topic, data)
	}
	return h.deliver(topic, data)
}

// deliver gives a message to all that are subscribed.
func (h *hub) deliver(topic string, data []byte) error {
	msg, err := websocket.NewPreparedMessage(websocket.TextMessage, data)
	if err != nil {
		return err
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, c := range h.topics[topic] {
		select {
		case c.queue <- msg:
		case <-c.gone:
		}
	}
	return nil
}

// send puts an answer into the queue, so that only one goroutine writes.
func (c *hubClient) send(text string) error {
	msg, err := websocket.NewPreparedMessage(websocket.TextMessage, []byte(text))
	if err == nil {
		c.queue <- msg
	}
	return err
}

// write writes what is in a client's queue.
func (h *hub) write(c *hubClient) {
	defer h.running.Done()
	for {
		select {
		case msg := <-c.queue:
			if c.conn.WritePreparedMessage(msg) != nil {
				_ = c.conn.Close() // and the goroutine that reads ends
			}
		case <-c.gone:
			return
		}
	}
}

func (h *hub) len() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.clients)
}

// close closes the connections and waits for their goroutines.
func (h *hub) close() {
	h.mu.Lock()
	clients := h.clients
	h.clients = nil
	h.mu.Unlock()
	for c := range clients {
		_ = c.conn.Close()
	}
	h.running.Wait()
}
