// Package hangup tells readers that their peers have ended (Linux only).
//
// A goroutine that waits for a socket in the runtime's poller is told when something has come, once (the poller is edge triggered). A read that
// did not fill its buffer has taken all bytes that there were; but the peer's end may have come along, which is not told again. So
// whoever waits there reads until a read finds nothing, which in an exchange of short messages is every second system call.
//
// A Watch has an interest list of its own, for nothing but the ends of peers. When a peer has ended it notes that, and shuts the socket
// down for reading: nothing can come any more, what has come can still be read, and the poller tells the reader once more.
//
//	reader: recv 100 of 4096 bytes ─► handle them ─► has the peer ended? no ─► wait in the poller
//	                                                      ▲                          ▲
//	peer: FIN ─► EPOLLRDHUP ─► Watch: it has ended ───────┘   then shutdown(SHUT_RD) ─┘
//
// It is noted before the poller is told. So either the reader finds the note, or it began to wait before the shutdown and is told of that. For
// bytes that arrive the kernel takes one lock more, and sees that nobody asked for them. See epoll(7), shutdown(2).
//
// Two kinds of reads stop short of what is there. One of a Unix socket does where descriptors or credentials came along: such peers are not to be
// watched. One of TCP does before an urgent byte, and what comes behind it may be found late: at the next arrival, or when a deadline has
// passed. RFC 6093 advises against urgent data.
package hangup
