package session_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// Bytes and an end that have arrived before the session is registered are read, whether or not they fill the buffer: the edge-triggered poller
// reports them once.
func TestInputBeforeRegistration(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		for _, n := range []int{0, 1, 128<<10 - 1, 128 << 10, 128<<10 + 1, 3 * 128 << 10} {
			t.Run(fmt.Sprint(network, "/", n), func(t *testing.T) {
				addr := "127.0.0.1:0"
				if network == "unix" {
					addr = socketPath(t)
				}
				ln := listen(t, network, addr)
				conn, err := net.Dial(network, ln.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				sent := make(chan error, 1)
				go func() {
					_, err := conn.Write(make([]byte, n))
					if err == nil {
						err = conn.(interface{ CloseWrite() error }).CloseWrite()
					}
					sent <- err
				}()
				if n <= 1 { // wait until everything that fits, and the end, has arrived before the session begins
					if err := testwait.Receive(t, sent); err != nil {
						t.Fatal(err)
					}
					sent <- nil
				}
				var got atomic.Int64
				closed := make(chan *session.CloseInfo, 1)
				serve(t, session.NewServer(codec.Raw{}, &session.Handler{
					Message: func(_ *session.Session, msg []byte) { got.Add(int64(len(msg))) },
					Close:   func(_ *session.Session, info *session.CloseInfo) { closed <- info },
				}, &session.Options{Engine: session.EngineLoop}), ln)
				if _, err := io.ReadAll(conn); err != nil {
					t.Error(err)
				}
				if err := testwait.Receive(t, sent); err != nil {
					t.Error(err)
				}
				if info := testwait.Receive(t, closed); info.By != session.ByPeer || !errors.Is(info.Err, io.EOF) || got.Load() != int64(n) {
					t.Errorf("%d of %d bytes came, closed by %v: %v", got.Load(), n, info.By, info.Err)
				}
			})
		}
	}
}
