package nats

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// serverLog passes the log of the embedded server on, and remembers its last error.
type serverLog struct {
	logger    *slog.Logger
	unwritten func() // called when the server reports that it could not write; the server may hold any of its locks then

	mu   sync.Mutex
	last string // guarded by mu: the last error
}

// cause returns the last error.
func (l *serverLog) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == "" {
		return errors.New("the server gave no reason")
	}
	return errors.New(l.last)
}

func (l *serverLog) fail(format string, v []any) {
	text := fmt.Sprintf(format, v...)
	l.mu.Lock()
	l.last = text
	l.mu.Unlock()
	l.logger.Error("embedded server", "text", text)
}

// Noticef, Warnf, Fatalf, Errorf, Debugf and Tracef implement server.Logger. Notices of the server are about its start and end, which the broker
// reports itself.
func (l *serverLog) Noticef(format string, v ...any) {
	l.logger.Debug("embedded server", "text", fmt.Sprintf(format, v...))
}

// Warnf implements server.Logger.
func (l *serverLog) Warnf(format string, v ...any) {
	l.logger.Warn("embedded server", "text", fmt.Sprintf(format, v...))
}

// Fatalf implements server.Logger. The server then shuts itself down.
func (l *serverLog) Fatalf(format string, v ...any) { l.fail(format, v) }

// Errorf implements server.Logger.
func (l *serverLog) Errorf(format string, v ...any) {
	l.fail(format, v)
	if strings.Contains(format, writeError) {
		l.unwritten()
	}
}

// writeError is part of the message that the server logs when it could not write. The server reports that in no other way.
const writeError = "critical write error"

// Debugf implements server.Logger.
func (l *serverLog) Debugf(string, ...any) {}

// Tracef implements server.Logger.
func (l *serverLog) Tracef(string, ...any) {}
