package protobuf_test

import (
	"fmt"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// A server reads the commands in a frame and appends the replies to another.
func Example() {
	frame := protobuf.AppendCommand(nil, &protocol.Command{
		ID: 1, Kind: protocol.KindPublish, Publish: protocol.PublishRequest{Channel: "chat:1", Data: []byte(`{"text":"hi"}`)},
	})
	frame = protobuf.AppendCommand(frame, &protocol.Command{}) // the answer to a ping

	var replies []byte
	message, rest, err := protobuf.Next(frame)
	for ; message != nil; message, rest, err = protobuf.Next(rest) {
		var c protocol.Command
		if err := protobuf.DecodeCommand(message, &c); err != nil {
			fmt.Println(err) // a *push.Error is the answer; after any other error, the connection ends
			continue
		}
		if c.IsPong() {
			fmt.Println("pong")
			continue
		}
		fmt.Printf("%d %v %s %s\n", c.ID, c.Kind, c.Publish.Channel, c.Publish.Data)
		replies = protobuf.AppendReply(replies, &protocol.Reply{ID: c.ID, Kind: c.Kind})
	}
	if err != nil {
		fmt.Println(err) // the connection ends
	}
	fmt.Printf("% x\n", replies)
	// Output:
	// 1 publish chat:1 {"text":"hi"}
	// pong
	// 04 08 01 42 00
}

// Fan-out encodes a publication once for all clients.
func ExampleAppendPublicationPush() {
	p := push.Publication{Offset: 1, Data: []byte(`1`)}
	fmt.Printf("% x\n", protobuf.AppendPublicationPush(nil, "chat:1", &p, protobuf.PushOptions{}))
	fmt.Printf("% x\n", protobuf.AppendPublicationPush(nil, "chat:1", &p, protobuf.PushOptions{Bare: true, ID: 7}))
	// Output:
	// 11 22 0f 12 06 63 68 61 74 3a 31 22 05 22 01 31 30 01
	// 09 08 07 22 05 22 01 31 30 01
}
