package stream

import "github.com/sluice-push/sluice/push"

// Late reports whether the stream has ended because the client took nothing for too long. It is called when [Transport.Serve] has returned.
func (s *Stream) Late() bool { return s.late }

// Why returns the disconnect with which the server has ended the stream, which the client has been told; nil if it ended otherwise. It is called
// when [Transport.Serve] has returned.
func (s *Stream) Why() *push.Disconnect { return s.Ends() }
