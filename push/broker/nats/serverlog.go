package nats

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// serverLog passes on what the embedded server has to say, and remembers why it did not start.
type serverLog struct {
	logger    *slog.Logger
	unwritten func() // called when the server says that it could not write; it may hold any of its locks then

	mu   sync.Mutex
	last string // guarded by mu: the last error
}

// cause returns the last error.
func (l *serverLog) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == "" {
		return errors.New("it does not say why")
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

// Noticef, Warnf, Fatalf, Errorf, Debugf and Tracef implement server.Logger. What the server finds worth a notice is its start and end,
// which are ours to report.
func (l *serverLog) Noticef(format string, v ...any) {
	l.logger.Debug("embedded server", "text", fmt.Sprintf(format, v...))
}

// Warnf implements server.Logger.
func (l *serverLog) Warnf(format string, v ...any) {
	l.logger.Warn("embedded server", "text", fmt.Sprintf(format, v...))
}

// Fatalf implements server.Logger. The server goes on to shut itself down.
func (l *serverLog) Fatalf(format string, v ...any) { l.fail(format, v) }

// Errorf implements server.Logger.
func (l *serverLog) Errorf(format string, v ...any) {
	l.fail(format, v)
	if strings.Contains(format, writeError) {
		l.unwritten()
	}
}

// writeError is in what the server says when it could not write. There is no other way to know.
const writeError = "critical write error"

// Debugf implements server.Logger.
func (l *serverLog) Debugf(string, ...any) {}

// Tracef implements server.Logger.
func (l *serverLog) Tracef(string, ...any) {}
