package nats

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	storeReserve = 64 << 20         // bytes that are left free on the disk
	readyWithin  = 30 * time.Second // how long a server may take to start; long, for one with much data
)

// host runs the embedded server. If the server has given up its storage, as it does when the disk is full, host starts it again in the same
// folder. It makes in-process connections to the present server.
type host struct {
	opts  *Options // immutable, like token
	token string   // the token of our own connections
	mark  *mark
	room  room

	mu     sync.Mutex
	srv    *server.Server // guarded by mu; nil while none runs
	closed bool           // guarded by mu

	failMu sync.Mutex    // may be taken while the server holds any of its locks
	failed chan struct{} // guarded by failMu: closed when the server could not write, and replaced when the server is started again
	why    string        // guarded by failMu: the reason; empty for lack of space
}

// startHost starts a server on the data folder.
func startHost(o *Options) (*host, error) {
	if o.Dir == "" {
		return nil, errors.New("the embedded server needs a data folder: set one")
	}
	m, err := openMark(o.Dir)
	if err != nil {
		return nil, err
	}
	if m.renewed != "" {
		o.Logger.Warn("data folder has a new generation, clients resubscribe without recovery", "folder", o.Dir, "reason", m.renewed)
		if err := dropIndexes(o.Dir); err != nil {
			return nil, errors.Join(fmt.Errorf("data folder is not writable: %w", err), m.close())
		}
	}
	h := &host{opts: o, mark: m, token: o.Token, failed: make(chan struct{})}
	if o.Listen != "" && o.Token == "" {
		if err := isLoopback(o.Listen); err != nil {
			return nil, errors.Join(err, m.close())
		}
	}
	srv, err := h.serve()
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	h.srv = srv
	return h, nil
}

// dropIndexes deletes the indexes of the streams, so that the server checks every message. With an index the server trusts files that were
// damaged, and a damaged sequence number makes it fill the memory of the machine.
func dropIndexes(dir string) error {
	return filepath.WalkDir(filepath.Join(dir, "jetstream"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == "index.db" {
			err = os.Remove(path)
		}
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return err
	})
}

// isLoopback returns an error unless an address can be reached from this machine only.
func isLoopback(addr string) error {
	name, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen address %q: %w", addr, err)
	}
	if ip := net.ParseIP(name); name == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("listen address %q is not loopback: set a token", addr)
}

// serve starts a server and waits until it has read its data.
func (h *host) serve() (*server.Server, error) {
	o := &server.Options{
		ServerName:             "sluice",
		DontListen:             h.opts.Listen == "",
		JetStream:              true,
		StoreDir:               h.opts.Dir,
		NoSigs:                 true,
		NoLog:                  true,
		DisableJetStreamBanner: true,
		MaxPayload:             int32(min(h.opts.MaxPublication+headerReserve, 64<<20)),
		MaxControlLine:         16 << 10,
		Authorization:          h.token,
		SyncInterval:           h.opts.Sync,
		SyncAlways:             h.opts.Sync < 0,
		JetStreamMaxMemory:     maxMemory,
	}
	if h.opts.Sync < 0 {
		o.SyncInterval = 2 * time.Minute
	}
	if h.opts.Listen != "" {
		name, port, err := net.SplitHostPort(h.opts.Listen)
		if err != nil {
			return nil, fmt.Errorf("listen address %q: %w", h.opts.Listen, err)
		}
		if o.Port, err = strconv.Atoi(port); err != nil {
			return nil, fmt.Errorf("port of listen address %q: %w", h.opts.Listen, err)
		}
		if o.Host = name; o.Port == 0 {
			o.Port = server.RANDOM_PORT
		}
	}
	bytes := h.opts.MaxStore
	if bytes <= 0 {
		bytes = roomIn(h.opts.Dir)
	}
	if bytes > 0 { // otherwise the server chooses a limit
		soft, hard := limits(bytes)
		h.room.limit.Store(soft)
		o.JetStreamMaxStore = hard
	}
	srv, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("embedded server: %w", err)
	}
	log := &serverLog{logger: h.opts.Logger, unwritten: h.fail}
	srv.SetLoggerV2(log, false, false, false)
	srv.Start()
	if !srv.ReadyForConnections(readyWithin) || !srv.JetStreamEnabled() {
		srv.Shutdown()
		srv.WaitForShutdown()
		return nil, fmt.Errorf("embedded server did not start: %w", log.cause())
	}
	return srv, nil
}

// maxMemory is how many bytes the server stores in memory, for namespaces that are not durable.
const maxMemory = 1 << 30

// roomIn returns how many bytes the server may use in its folder: the used and the free ones, less a reserve. 0 lets the server choose.
func roomIn(dir string) int64 {
	free := freeIn(dir)
	if free < 0 {
		return 0 // not known
	}
	reserve := min(storeReserve, free/8)
	return max(free-reserve+sizeOf(filepath.Join(dir, "jetstream")), 1)
}

// sizeOf returns the size of all files in a folder.
func sizeOf(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}

// InProcessConn implements nats.InProcessConnProvider.
func (h *host) InProcessConn() (net.Conn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.srv == nil {
		return nil, errors.New("the embedded server is not running")
	}
	return h.srv.InProcessConn()
}

// failure returns a channel that is closed when the server cannot write to its folder any more.
func (h *host) failure() <-chan struct{} {
	h.failMu.Lock()
	defer h.failMu.Unlock()
	return h.failed
}

// fail notes that the server could not write. The server then does not answer publishers, and does not try again until it is started again.
func (h *host) fail() { h.failBecause("") }

// failBecause is fail with a reason for publishers to see.
func (h *host) failBecause(why string) {
	h.failMu.Lock()
	defer h.failMu.Unlock()
	if !isClosed(h.failed) {
		h.why = why
		close(h.failed)
	}
}

// whyFailed returns the reason why the server cannot write.
func (h *host) whyFailed() string {
	h.failMu.Lock()
	defer h.failMu.Unlock()
	if h.why != "" {
		return h.why
	}
	return space
}

// check stops publishing if the data folder is gone or its mark cannot be written. The server would go on writing to deleted files, without an
// error.
func (h *host) check(heads map[string]head) {
	err := h.mark.missing(heads)
	if err == nil {
		err = h.mark.note(heads)
	}
	if err != nil && !isClosed(h.failure()) {
		h.opts.Logger.Error("data folder lost or not writable, publications refused", "folder", h.opts.Dir, "error", err)
		h.failBecause(fmt.Sprintf("data folder lost or not writable (%v)", err))
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// mendRoom is how many bytes have to be free on the disk before the server is started again.
const mendRoom = 8 << 20

// mend starts the server again if it stores nothing any more, as soon as there is space.
func (h *host) mend() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.srv != nil && h.srv.JetStreamEnabled() && !isClosed(h.failure()) {
		return
	}
	if free := freeIn(h.opts.Dir); free >= 0 && free < mendRoom {
		return
	}
	if h.mark.missing(nil) != nil {
		return // a server would start with an empty folder and the same epochs: the node has to be restarted
	}
	if h.srv != nil {
		h.opts.Logger.Error("embedded server failed to write to the data folder, restarting it", "folder", h.opts.Dir)
		h.srv.Shutdown()
		h.srv.WaitForShutdown()
		h.srv = nil
	}
	h.failMu.Lock()
	h.failed, h.why = make(chan struct{}), ""
	h.failMu.Unlock()
	srv, err := h.serve()
	if err != nil {
		h.opts.Logger.Error("embedded server failed to start, retrying", "error", err)
		return
	}
	h.srv = srv
}

func (h *host) generation() string { return h.mark.generation() }

func (h *host) noted(stream string) head { return h.mark.noted(stream) }

// close shuts down the server and marks the folder as complete.
func (h *host) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.srv != nil {
		h.srv.Shutdown()
		h.srv.WaitForShutdown()
		h.srv = nil
	}
	return h.mark.close()
}

// addr returns the address on which the server listens, empty if it does not.
func (h *host) addr() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.srv == nil || h.srv.Addr() == nil {
		return ""
	}
	return h.srv.Addr().String()
}

// newNonce returns a name that is used once.
func newNonce() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	return hex.EncodeToString(b[:])
}
