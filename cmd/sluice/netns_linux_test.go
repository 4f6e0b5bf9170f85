package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ownNetwork names the environment variable that tells a test that it runs in a process with its own network namespace. The process is root
// there, and no packet leaves the namespaces that it makes.
const ownNetwork = "SLUICE_TEST_OWN_NETWORK"

// The variables that tell that process where the programs are that this one has built.
const (
	programVariable = "SLUICE_TEST_PROGRAM"
	serverVariable  = "SLUICE_TEST_NATS_SERVER"
)

// networkTime is how long a test with its own network may take.
const networkTime = 15 * time.Minute

// withOwnNetwork runs a test again in such a process, and reports whether this is that process.
func withOwnNetwork(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownNetwork) != "" {
		return true
	}
	program, err := binary()
	must(t, err)
	server, err := natsServer()
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), networkTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+networkTime.String())
	cmd.Env = append(os.Environ(), ownNetwork+"=1", programVariable+"="+program, serverVariable+"="+server)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	switch {
	case cmd.ProcessState == nil:
		t.Fatalf("a process with its own network cannot be started; this needs user and network namespaces: %v", err)
	case err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Fatalf("%v:\n%s", err, out)
	}
	t.Logf("%s", out)
	return false
}

// ownNet is a bridge in the namespace of the test, and a namespace for each host, which is plugged into the bridge.
type ownNet struct {
	t     *testing.T
	hosts int
}

// host is a namespace with one address. It lasts as long as its process.
type host struct {
	network *ownNet
	ip      string
	mac     string
	pid     string // of the process that keeps the namespace
}

// networkPrefix begins the addresses of the hosts. The bridge has number 1.
const networkPrefix = "10.77.0."

func newNetwork(t *testing.T) *ownNet {
	t.Helper()
	n := &ownNet{t: t, hosts: 1}
	n.run("ip", "link", "set", "lo", "up")
	n.run("ip", "link", "add", "br0", "type", "bridge")
	n.run("ip", "address", "add", networkPrefix+"1/24", "dev", "br0")
	n.run("ip", "link", "set", "br0", "up")
	return n
}

// run runs a program and waits until it has ended.
func (n *ownNet) run(name string, args ...string) {
	n.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		n.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// host adds a host.
func (n *ownNet) host() *host {
	n.t.Helper()
	n.hosts++
	number := strconv.Itoa(n.hosts)
	h := &host{network: n, ip: networkPrefix + number, mac: fmt.Sprintf("02:00:00:00:00:%02x", n.hosts)}
	keeper := exec.Command("cat") // it ends when its input does, at the end of this process at the latest
	keeper.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	input, err := keeper.StdinPipe()
	must(n.t, err)
	must(n.t, keeper.Start())
	n.t.Cleanup(func() {
		_ = input.Close()
		_ = keeper.Wait()
	})
	h.pid = strconv.Itoa(keeper.Process.Pid)
	n.run("ip", "link", "add", "port"+number, "type", "veth", "peer", "name", "eth0", "address", h.mac, "netns", h.pid)
	n.run("ip", "link", "set", "port"+number, "master", "br0", "up")
	h.run("ip", "address", "add", h.ip+"/24", "dev", "eth0")
	h.run("ip", "link", "set", "lo", "up")
	h.run("ip", "link", "set", "eth0", "up")
	return h
}

// command returns a command that runs on the host. The program ends with this process at the latest.
func (h *host) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("nsenter", append([]string{"--target", h.pid, "--net", name}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (h *host) run(name string, args ...string) {
	h.network.t.Helper()
	cmd := h.command(name, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		h.network.t.Fatalf("%s: %v: %s", cmd, err, out)
	}
}

// nowhere is a hardware address that no host has.
const nowhere = "02:00:00:00:ff:ff"

// drop has the network lose all packets from this host to another one. The packets go to a hardware address that no host has. Unlike a
// blackhole route or a rule of that kind, this gives programs no error, as a cable that is cut gives none; and unlike an interface that is
// down, it takes one direction alone. Packet filters (nft, iptables, filters of tc) would do it too, but not every kernel has them.
func (h *host) drop(to *host) { h.sendTo(to, nowhere) }

// restore ends that.
func (h *host) restore(to *host) { h.sendTo(to, to.mac) }

func (h *host) sendTo(to *host, mac string) {
	h.network.t.Helper()
	h.run("ip", "neighbor", "replace", to.ip, "lladdr", mac, "dev", "eth0", "nud", "permanent")
}
