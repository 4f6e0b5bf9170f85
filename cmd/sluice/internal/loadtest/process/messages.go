package process

import (
	"bufio"
	"encoding/gob"
	"fmt"
	"io"
	"sync"
)

// Messages writes values of encoding/gob to a process, or from it. Its methods may be called concurrently.
type Messages struct {
	mu  sync.Mutex // guards the fields below
	buf *bufio.Writer
	enc *gob.Encoder
}

// NewMessages returns a writer of messages to w, which nothing else may be written to.
func NewMessages(w io.Writer) *Messages {
	buffered := bufio.NewWriterSize(w, 64<<10)
	return &Messages{buf: buffered, enc: gob.NewEncoder(buffered)}
}

// Send writes a message. The error is that of the writer, or says that the message cannot be encoded.
func (m *Messages) Send(message any) error {
	err := m.Buffer(message)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.buf.Flush(); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// Buffer writes a message like Send, but some or all of it may be kept until the next Send.
func (m *Messages) Buffer(message any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enc.Encode(message); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}
