package nats

import (
	"encoding/json"
	"strings"

	nats "github.com/nats-io/nats.go"
)

// The server publishes an advisory for each API request. The broker learns from it that another program has deleted publications, which the
// state of a stream does not distinguish from evictions by its limits. It also learns at once that a stream was deleted or made again.
const advisories = "$JS.EVENT.ADVISORY.API"

// advisory is the server's report of an API request.
type advisory struct {
	ID      string `json:"id"`
	Subject string `json:"subject"` // of the request
	Client  *struct {
		Name string `json:"name"`
	} `json:"client"`
	Response string `json:"response"`
}

// watch subscribes to the advisories. If the server does not permit that, the error handler logs it, and deletions by other programs go
// unnoticed.
func (b *Broker) watch() error {
	_, err := b.conn.Subscribe(advisories, func(m *nats.Msg) {
		var a advisory
		if err := json.Unmarshal(m.Data, &a); err == nil {
			b.advised(&a)
		}
	})
	return err
}

// advised handles an advisory.
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
		p.noteDeletion(a.ID)
		b.wake()
	case "DELETE", "CREATE", "RESTORE":
		b.wake()
	}
}

// partitionOfStream returns the partition with a stream, nil if there is none.
func (b *Broker) partitionOfStream(stream string) *partition {
	for _, p := range b.partitions.All() {
		if p.stream == stream {
			return p
		}
	}
	return nil
}
