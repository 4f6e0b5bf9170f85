package connect

import (
	"bufio"
	"io"

	"github.com/sluice-push/sluice/push/gateway"
)

// Encoders returns what makes the frames of clients of Connect, by form.
func Encoders() map[string]*gateway.Encoder {
	f := newForms(gateway.TwoWay)
	return map[string]*gateway.Encoder{"protobuf": f.binary.Encoder(), "json": f.json.Encoder()}
}

// NewTextBody returns the decoder of the body of a request in base64.
func NewTextBody(r io.Reader) io.Reader { return &textBody{in: bufio.NewReaderSize(r, 16)} }
