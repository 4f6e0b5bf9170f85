package drain

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// mostWatchers is how many requests may wait for the end of a node.
	mostWatchers = 16
	// writeTimeout is how long a client that waits for the end may take nothing.
	writeTimeout = time.Second
)

// watch answers with a line for each state. It takes the connection from net/http, whose Shutdown would wait for the request, and leaves the connection
// open after the last line: the kernel closes it when the process has ended, which is how the client knows.
func (d *Drain) watch(w http.ResponseWriter, isFirst bool) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "wait needs HTTP/1.1", http.StatusNotImplemented)
		return
	}
	_ = conn.SetDeadline(time.Time{}) // if it fails, so does the first write
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = io.Copy(io.Discard, buffered.Reader) // until the client leaves
	}()
	defer func() {
		_ = conn.SetReadDeadline(time.Unix(1, 0))
		<-left
	}()
	_, _ = buffered.WriteString("HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n")
	for {
		report, changed := d.report()
		report.Started = isFirst
		if err := writeLine(conn, buffered.Writer, &report); err != nil {
			_ = conn.Close()
			return
		}
		if report.State == Ended {
			return
		}
		select {
		case <-changed:
		case <-left:
			_ = conn.Close()
			return
		}
	}
}

// leaveWatch ends what request has counted.
func (d *Drain) leaveWatch() {
	d.mu.Lock()
	d.watchers--
	d.mu.Unlock()
	d.watching.Done()
}

// writeLine writes what w holds, and a report.
func writeLine(conn net.Conn, w *bufio.Writer, r *Report) error {
	if err := conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if err := json.NewEncoder(w).Encode(r); err != nil {
		return err
	}
	return w.Flush()
}
