package load

import (
	"net"
	"net/url"
)

// spareDescriptors are those that a process needs besides its clients' connections.
const spareDescriptors = 200

// isLoopback reports whether a URL is of a server on this host.
func isLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return ip.To4() != nil && ip.IsLoopback() || u.Hostname() == "localhost"
}

// processes is how many processes of clients a spec needs. While a connection is made it needs two files.
func (s *Spec) processes(files int) int {
	if s.Processes > 0 {
		return s.Processes
	}
	room := files - spareDescriptors - 2*s.Connect
	if s.Network != "" {
		room /= filesBehindNetwork
	}
	room = max(room, 1)
	return (s.Clients + room - 1) / room
}
