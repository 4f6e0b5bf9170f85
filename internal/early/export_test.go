package early

import (
	"bufio"
	"net/http"
)

// Parse returns the request of a head that is handled early, nil for any other.
func Parse(text []byte) *http.Request {
	return (&listener{reader: bufio.NewReaderSize(nil, maxRequest)}).parse(text)
}

// MaxRequest is how large a head is looked at.
const MaxRequest = maxRequest
