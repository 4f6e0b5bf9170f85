package frame_test

import (
	"fmt"
	"net"

	"github.com/sluice-push/sluice/rpc/frame"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/transport"
)

func Example() {
	call := frame.Frame{Dialect: frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Bare}, Kind: frame.Call, Sequence: 1}
	call.SetMethod("Echo")
	call.Add("trace", "abc")
	wire, err := call.AppendEncode(nil, []byte(`{"text":"hello"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	wire = append(wire, 0, 0, 0, 99) // and a frame that has only begun

	c := frame.New(nil)
	for {
		body, n, err := c.Decode(wire)
		if err != nil {
			fmt.Println(err)
			return
		}
		if n <= 0 {
			fmt.Println("at least", -n, "bytes more are needed")
			return
		}
		f := c.Frame()
		fmt.Printf("%v, %v %s, sequence %d, trace %s: %s\n", f.Dialect, f.Kind, f.Method, f.Sequence, f.Value("trace"), body)
		wire = wire[n:]
	}
	// Output:
	// TTHeader bare, call Echo, sequence 1, trace abc: {"text":"hello"}
	// at least 4 bytes more are needed
}

// A server of package session that answers every call with its own body, in whichever dialect it came.
func Example_session() {
	srv := session.NewServer(nil, &session.Handler{
		Open: func(s *session.Session) error {
			c := frame.New(nil)
			s.SetCodec(c)
			s.SetValue(c)
			return nil
		},
		Message: func(s *session.Session, body []byte) {
			var reply frame.Frame
			reply.Answer(s.Value().(*frame.Codec).Frame(), frame.Reply)
			_ = s.SendAs(&reply, body)
		},
	}, nil)
	defer srv.Close()
	client, server := transport.Pipe(4 << 10)
	defer client.Close()
	if _, err := srv.ServeConn(server, nil); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ask(client))
	// Output:
	// THeader binary reply Echo, sequence 7
}

// ask sends a call and returns what the answer is.
func ask(conn net.Conn) string {
	call := frame.Frame{Dialect: frame.Dialect{Framing: frame.THeader, Protocol: frame.Binary}, Kind: frame.Call, Sequence: 7}
	call.SetMethod("Echo")
	wire, _ := call.AppendEncode(nil, []byte{0})
	if _, err := conn.Write(wire); err != nil {
		return err.Error()
	}
	c, in := frame.New(nil), make([]byte, 0, 1<<10)
	for {
		n, err := conn.Read(in[len(in):cap(in)])
		if err != nil {
			return err.Error()
		}
		in = in[:len(in)+n]
		if _, n, err := c.Decode(in); n > 0 {
			f := c.Frame()
			return fmt.Sprintf("%v %v %s, sequence %d", f.Dialect, f.Kind, f.Method, f.Sequence)
		} else if err != nil {
			return err.Error()
		}
	}
}
