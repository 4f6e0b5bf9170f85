package report

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Listeners returns the IDs of the processes that listen on an address host:port. If the address does not belong to this host, it returns none
// and no error. It returns an error if the system is not Linux, if no process listens there in this network namespace, or if the process belongs
// to another user. It may be called concurrently.
func Listeners(ctx context.Context, address string) ([]int, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("report: listeners: %w", err)
	}
	ips, err := net.DefaultResolver.LookupIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("report: listeners: %w", err)
	}
	if !slices.ContainsFunc(ips, isOfThisHost) {
		return nil, nil
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return nil, fmt.Errorf("report: listeners: %w", err)
	}
	pids, err := hostProc().listeners(number, ips)
	if err != nil {
		return nil, fmt.Errorf("report: find the listener of %s: %w", address, err)
	}
	return pids, nil
}

// isOfThisHost reports whether an IP address belongs to this host.
func isOfThisHost(ip net.IP) bool {
	if ip.IsLoopback() {
		return true
	}
	addresses, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(addresses, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
}

// listeners returns the processes that listen on a port at one of the addresses, or at all addresses.
func (p proc) listeners(port int, ips []net.IP) ([]int, error) {
	var inodes []string
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := p.read("net", table)
		if err != nil && table == "tcp" {
			return nil, err
		}
		inodes = append(inodes, listening(string(text), port, ips)...)
	}
	if len(inodes) == 0 {
		return nil, fmt.Errorf("no process listens on port %d in this network namespace", port)
	}
	var pids []int
	for _, pid := range p.pids() {
		if p.holds(pid, inodes) {
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("port %d belongs to a process that this user may not inspect", port)
	}
	return pids, nil
}

// listening returns the inodes of the listening sockets for a port and one of the addresses, or all addresses. table is the content of
// /proc/net/tcp or tcp6.
func listening(table string, port int, ips []net.IP) []string {
	var inodes []string
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		const local, state, inode = 1, 3, 9
		const listen = "0A" // TCP_LISTEN
		if len(fields) <= inode || fields[state] != listen {
			continue
		}
		address, hexPort, _ := strings.Cut(fields[local], ":")
		if n, err := strconv.ParseUint(hexPort, 16, 16); err != nil || int(n) != port {
			continue
		}
		ip := kernelIP(address)
		if ip.IsUnspecified() || slices.ContainsFunc(ips, ip.Equal) {
			inodes = append(inodes, fields[inode])
		}
	}
	return inodes
}

// kernelIP parses an IP address in the form of /proc/net/tcp: words of four bytes in the byte order of the processor. It assumes little-endian,
// so on other processors no listener is found. It returns nil if text is no address.
func kernelIP(text string) net.IP {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != net.IPv4len && len(raw) != net.IPv6len {
		return nil
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	return raw
}

// holds reports whether a process has one of the sockets.
func (p proc) holds(pid int, inodes []string) bool {
	folder := filepath.Join(string(p), strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(folder)
	if err != nil {
		return false // the process has ended, or belongs to another user
	}
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(folder, e.Name()))
		inode, ok := strings.CutPrefix(target, "socket:[")
		if err == nil && ok && slices.Contains(inodes, strings.TrimSuffix(inode, "]")) {
			return true
		}
	}
	return false
}
