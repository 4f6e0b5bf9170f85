// Command tcp-go is a client of a node's TCP port without an SDK: it subscribes to a channel and prints what is published there.
//
//	tcp-go ADDRESS CHANNEL
//
// ADDRESS is host:port, or unix: and the path of a socket. The program ends with status 1 when the server ends the connection.
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

const most = 64 << 20 // bytes of a message

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: tcp-go ADDRESS CHANNEL")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "tcp-go:", run(os.Args[1], os.Args[2]))
	os.Exit(1)
}

// run subscribes to a channel and prints publications until the connection ends.
func run(address, channel string) error {
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
	}
	conn, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	commands := protobuf.AppendCommand(nil, &protocol.Command{ID: 1, Kind: protocol.KindConnect})
	commands = protobuf.AppendCommand(commands, &protocol.Command{
		ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: channel},
	})
	if _, err := conn.Write(commands); err != nil {
		return err
	}
	for in := bufio.NewReader(conn); ; {
		r, err := receive(in)
		switch {
		case err != nil:
			return err
		case r.Error != nil:
			return r.Error
		case r.IsPing():
			_, err = conn.Write(protobuf.AppendCommand(nil, &protocol.Command{})) // the pong
		case r.ID == 2:
			_, err = fmt.Println("subscribed to", channel)
		case r.Push.Kind == protocol.PushPublication:
			_, err = fmt.Printf("%d %s\n", r.Push.Publication.Offset, r.Push.Publication.Data)
		case r.Push.Kind == protocol.PushDisconnect:
			return r.Push.Disconnect
		}
		if err != nil {
			return err
		}
	}
}

// receive reads a message: its length, and as many bytes.
func receive(in *bufio.Reader) (r protocol.Reply, err error) {
	size, err := binary.ReadUvarint(in)
	if err != nil {
		return r, err
	}
	if size > most {
		return r, errors.New("the message is too large")
	}
	message := make([]byte, size)
	if _, err := io.ReadFull(in, message); err != nil {
		return r, err
	}
	return r, protobuf.DecodeReply(message, &r)
}
