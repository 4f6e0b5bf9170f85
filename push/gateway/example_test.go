package gateway_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/coder/websocket"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/gateway"
	sseclients "github.com/sluice-push/sluice/push/gateway/sse"
	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
	"github.com/sluice-push/sluice/push/hub"
)

// A node in one process, and a client without SDK.
func Example() {
	ctx := context.Background()
	b := memory.New(nil)
	defer func() { _ = b.Close() }()
	news := hub.Namespace{Namespace: broker.Namespace{Name: "news", Mode: push.Stream, History: push.History{Size: 100}}}
	h, err := hub.New(ctx, b, []hub.Namespace{news}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = h.Close() }()
	g := gateway.New(h, nil, wsclients.New, sseclients.NewOneWay)
	defer func() { _ = g.Shutdown(ctx) }()
	server := httptest.NewServer(g.Handler())
	defer server.Close()

	c, _, err := websocket.Dial(ctx, strings.Replace(server.URL, "http", "ws", 1)+wsclients.Path, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.CloseNow() }()
	commands := "{\"id\":1,\"connect\":{}}\n{\"id\":2,\"subscribe\":{\"channel\":\"news:today\"}}"
	if err := c.Write(ctx, websocket.MessageText, []byte(commands)); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 { // two answers
		if _, _, err := c.Read(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}
	if _, err := h.Publish(ctx, "news:today", push.Publication{Data: []byte(`"hello"`)}, ""); err != nil {
		fmt.Println(err)
		return
	}
	_, message, err := c.Read(ctx)
	fmt.Println(string(message), err)
	// Output: {"push":{"channel":"news:today","pub":{"data":"hello","offset":1}}} <nil>
}
