package nats

import (
	"encoding/json"
	"strings"

	nats "github.com/nats-io/nats.go"
)

// The server tells what is asked of it. From that it is known when somebody else deletes publications, which nothing in a stream
// tells apart from what its limits evict, and at once when a stream is deleted or made anew.
const advisories = "$JS.EVENT.ADVISORY.API"

// advisory is what the server tells of a request.
type advisory struct {
	ID      string `json:"id"`
	Subject string `json:"subject"` // of the request
	Client  *struct {
		Name string `json:"name"`
	} `json:"client"`
	Response string `json:"response"`
}

// watch begins to listen to what is asked of the server. It may not be allowed to: then the log says so, and it is not known.
func (b *Broker) watch() error {
	_, err := b.conn.Subscribe(advisories, func(m *nats.Msg) {
		var a advisory
		if err := json.Unmarshal(m.Data, &a); err == nil {
			b.advised(&a)
		}
	})
	return err
}

// advised handles what the server told of a request.
func (b *Broker) advised(a *advisory) {
	_, request, _ := strings.Cut(a.Subject, ".API.STREAM.")
	at := strings.LastIndexByte(request, '.')
	if at < 0 {
		return
	}
	p := b.partitionOfStream(request[at+1:])
	if p == nil {
		return
	}
	switch request[:at] {
	case "PURGE", "MSG.DELETE":
		isOurs := a.Client != nil && strings.HasPrefix(a.Client.Name, clientName)
		var response struct {
			Success bool    `json:"success"`
			Purged  *uint64 `json:"purged"`
		}
		err := json.Unmarshal([]byte(a.Response), &response)
		if isOurs || err != nil || !response.Success || response.Purged != nil && *response.Purged == 0 {
			return
		}
		p.meddled(a.ID)
		b.wake()
	case "DELETE", "CREATE", "RESTORE":
		b.wake()
	}
}

// partitionOfStream returns the partition that a stream is, nil if it is none.
func (b *Broker) partitionOfStream(stream string) *partition {
	for _, p := range b.allPartitions() {
		if p.stream == stream {
			return p
		}
	}
	return nil
}
