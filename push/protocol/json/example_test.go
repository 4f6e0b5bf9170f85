package json_test

import (
	"errors"
	"fmt"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
)

// A server splits a frame, answers each command, and sends all replies as one frame.
func Example() {
	frame := []byte(`{"id":1,"publish":{"channel":"chat:1","data":{"text":"hello"}}}
{"id":2,"publish":{"channel":"chat:1","data":"x","key":7}}
{"id":3,"teleport":{}}
{}`)

	var out []byte
	var c protocol.Command
	for line, rest := json.NextLine(frame); line != nil; line, rest = json.NextLine(rest) {
		err := json.DecodeCommand(line, &c)
		var refusal *push.Error
		switch {
		case errors.As(err, &refusal):
			out = json.AppendErrorReply(out, c.ID, refusal)
		case err != nil:
			fmt.Println("the connection ends:", push.DisconnectBadRequest)
			return
		case c.IsPong():
			continue
		case c.Kind == protocol.KindPublish:
			fmt.Printf("publish to %s: %s\n", c.Publish.Channel, c.Publish.Data)
			out = json.AppendReply(out, &protocol.Reply{ID: c.ID, Kind: protocol.KindPublish})
		case c.Kind == protocol.KindUnknown:
			out = json.AppendErrorReply(out, c.ID, push.ErrMethodNotFound)
		default:
			out = json.AppendErrorReply(out, c.ID, push.ErrNotAvailable)
		}
		out = append(out, '\n')
	}
	fmt.Printf("%s", out)

	// Output:
	// publish to chat:1: {"text":"hello"}
	// {"id":1,"publish":{}}
	// {"id":2,"error":{"code":107,"message":"publish.key: expected a string at byte 55"}}
	// {"id":3,"error":{"code":104,"message":"method not found"}}
}

// Fan-out encodes a publication once and sends the same bytes to every subscriber.
func ExampleAppendPublicationPush() {
	p := &push.Publication{Offset: 15, Key: "ABC", Data: []byte(`{"bid":1.25}`)}
	fmt.Printf("%s\n", json.AppendPublicationPush(nil, "quotes:all", p, json.PushOptions{}))
	fmt.Printf("data: %s\n", json.AppendPublicationPush(nil, "quotes:all", p, json.PushOptions{Bare: true}))

	// Output:
	// {"push":{"channel":"quotes:all","pub":{"data":{"bid":1.25},"offset":15,"key":"ABC"}}}
	// data: {"channel":"quotes:all","pub":{"data":{"bid":1.25},"offset":15,"key":"ABC"}}
}

func ExampleCompactData() {
	data, err := json.CompactData([]byte("{\n  \"bid\": 1.250\n}"))
	fmt.Printf("%s %v\n", data, err)
	_, err = json.CompactData([]byte(`{"bid": .5}`))
	fmt.Println(err)

	// Output:
	// {"bid":1.250} <nil>
	// protocol: decode data: unexpected '.', expected a value at byte 8
}
