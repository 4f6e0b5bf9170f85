package rpc_test

import (
	"bytes"
	"testing"

	"github.com/sluice-push/sluice/rpc"
)

// Queues of messages use each other's memory again, also that of large queues, and never while a body in it is valid.
func TestMessagesShareMemory(t *testing.T) {
	const most = 40 << 10
	var queues [3]rpc.Messages
	for round := range 50 {
		for q := range queues {
			for i := range 1 + round%5 {
				queues[q].Add(bytes.Repeat([]byte{byte(q), byte(round), byte(i)}, most/3*(1+i%2)))
			}
		}
		for q := range queues {
			for i := range 1 + round%5 {
				body, ok := queues[q].Take()
				if want := bytes.Repeat([]byte{byte(q), byte(round), byte(i)}, most/3*(1+i%2)); !ok || !bytes.Equal(body, want) {
					t.Fatalf("round %d, queue %d: message %d has %d bytes, %t", round, q, i, len(body), ok)
				}
			}
			if _, ok := queues[q].Take(); ok {
				t.Fatalf("round %d, queue %d has more", round, q)
			}
			queues[q].Reset()
		}
	}
}
