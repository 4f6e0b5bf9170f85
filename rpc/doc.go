// Package rpc makes calls to other programs: many at a time over one connection, each with its own deadline.
//
// A service is a function for each method:
//
//	srv := rpc.NewServer(nil)
//	rpc.Handle(srv, "Greet", func(ctx context.Context, in *Question) (*Answer, error) {
//		return &Answer{"hello " + in.Name}, nil
//	})
//	err := srv.Serve(ln)
//
// And a caller:
//
//	conn, err := rpc.Dial(ctx, "tcp", address, nil)
//	var out Answer
//	err = conn.Call(ctx, "Greet", &Question{"ann"}, &out)
//
// A server answers clients of all dialects of package rpc/frame on one port: those of this package, of Kitex (TTHeader), and of Apache Thrift (THeader,
// framed, unframed). [Form] is what is in the bodies: [JSON], [Raw], or one of packages rpc/protobuf and rpc/thrift. A method may be handled in several
// forms.
//
// # The life of a call
//
//	Do ─► encode ─► table of pending calls ─► frame ──────────► decode ─► bounds ─► handler
//	                     │                                         │                   │
//	                     │ full: Overloaded                        │ no such method,   │ an error, a panic
//	                     │                                         ▼ too many          ▼
//	result or error ◄────┴─────────────────────────── frame ◄──────────── answer ◄─────┘
//
// A call ends once, by the first of these: its answer; its context, of which the server is told; the end of its connection. Its error is an *[Error],
// whose [Code] says which it was. If [Refused] reports true, the handler has not begun, so that even a call that must not be carried out twice may
// be made again.
//
// # Deadlines and cancellation
//
// The deadline of the caller's context travels, in milliseconds, and becomes that of the handler's context. When a caller gives up, its server gets a
// control frame and cancels the handler's context. That context is also done when the connection ends, if the connection is read meanwhile. Deadlines
// need a header: THeader or TTHeader; cancellation needs TTHeader, and a server of this package. There is no default deadline: a call without one waits
// until it is answered or the connection ends.
//
// # Handlers
//
// A handler runs in a goroutine of its own while there is one call to handle, or on Options.Executor. Methods that do not wait can run where the
// connection is read: Method.Inline. Clients of Thrift expect answers in the order of their calls, so the calls of a connection of a framing without
// [frame.FlagOutOfOrder], other than TTHeader, are handled one after the other.
//
// Answers that are ready while the messages of one read are handled leave in one write; calls that several goroutines make at the same time do, too.
// Nothing waits for that.
//
// [Conn.Send] makes a one-way call of any method. Nothing is sent back: the result and the error of the handler are dropped, and a call that the server
// refuses, or whose method it does not have, is dropped too.
//
// # Errors of handlers
//
// A handler chooses the code with [Errorf]. If its error wraps an *Error, such as that of a call that the handler has made itself, the code of that *Error
// travels with the whole text. Nothing of this is a refusal for the caller: [Refused] reports true only for what the server itself has refused, and for
// [Call.Refuse].
//
// # Streams
//
// A method may answer with a stream of messages, which end in order or with an error:
//
//	rpc.HandleStream(srv, "Watch", func(ctx context.Context, in *Topic, send func(*Event) error) error {
//		for event := range events(ctx, in.Name) {
//			if err := send(&event); err != nil {
//				return err // the caller does not want more
//			}
//		}
//		return nil
//	})
//
// The caller receives them one by one, and calls Close if it stops before the end:
//
//	stream, err := conn.Stream(ctx, &rpc.Request{Method: "Watch"}, &Topic{Name: "news"})
//	...
//	defer stream.Close()
//	for {
//		var event Event
//		if err := stream.Receive(&event); err == io.EOF {
//			break
//		} else if err != nil {
//			return err
//		}
//	}
//
// A stream is a call under way until it ends: it counts for all bounds, has the deadline of the context if there is one, and can be canceled. Its handler
// always has a goroutine of its own, or one of the executor. Shutdown waits for streams and does not end them. If the handler of a
// stream does not end by itself, the program has to make it return when it calls Shutdown.
//
// ConnOptions.StreamMessages and StreamBytes bound what waits at the caller for Receive. When they are reached, send waits, until the caller
// has received more, or the handler's context is done. So a stream that is read slowly delays its own handler and nothing else on the connection. A
// handler whose caller neither receives nor gives up waits as long as the connection lasts, if the call has no deadline.
//
// Streams travel between programs of this package, in the framing TTHeader. A method with a stream answers all calls that do not ask for a stream with
// [UnknownMethod]: those of Conn.Call, Kitex and Apache Thrift. Conn.Stream of a method with one answer gives a stream of one message.
//
// # Bounds
//
// Options bound the calls under way, of one connection and in all, and the bytes of their arguments. A call beyond them is answered at once with
// [Overloaded]. On the other side, ConnOptions bound the calls that wait. A client that does not read its answers is not read from either, and ends after
// the WriteTimeout of its session. A Conn waits as long for a server that does not read: longer, then, than the context of a call may allow.
//
// # The end of a connection
//
// [Server.Shutdown] loses no call of clients of this package. It tells them that the connection will close, with the control frame that Kitex has for
// this, and handles what still arrives. A [Conn] makes no new calls then ([Unavailable]), waits for its answers, and closes. Other connections end
// when they have been silent for Options.DrainGrace.
//
// A Conn that hears nothing for ConnOptions.Heartbeat asks its server for a sign of life. A Conn that has ended does not come back: package rpc/client
// keeps connections to all servers of a service.
package rpc
