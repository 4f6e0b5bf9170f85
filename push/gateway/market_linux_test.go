package gateway_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/gateway"
)

// scene is a load with real sockets: clients, and what is published to them at which pace.
type scene struct {
	Clients, Channels, Each int // each client is subscribed to so many of the channels
	every                   time.Duration
	burst                   int // publications at a time, of channels one after the other
}

// BenchmarkScene publishes at a steady pace to clients in a process of their own. It reports the processor time of this process for each
// delivery, and the time from a publication to its arrival, of one second of publishing an iteration. How the clients are spread over the
// channels, and the pace, are those of the comparison with other servers: see docs/benchmarks.md.
func BenchmarkScene(b *testing.B) {
	for name, s := range map[string]scene{
		"market": {5000, 2000, 20, time.Millisecond, 2},
		"bursts": {1000, 20, 20, 200 * time.Millisecond, 20},
		"wide":   {7500, 1, 1, 100 * time.Millisecond, 1},
	} {
		b.Run(name, func(b *testing.B) { s.run(b) })
	}
}

func (s scene) run(b *testing.B) {
	p := newPlace(b, &gateway.Options{PingInterval: -1})
	audience := s.start(b, p.addr)
	channel := 0
	var before, after syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
	for b.Loop() {
		due := time.Now()
		for range int(time.Second / s.every) {
			for range s.burst {
				p.publish("c"+strconv.Itoa(channel), fmt.Sprintf(`{"price":"100.25","size":12,"note":"%032d","t":%d}`, channel, time.Now().UnixMicro()))
				channel = (channel + 1) % s.Channels
			}
			due = due.Add(s.every)
			<-time.After(time.Until(due)) // the pace
		}
	}
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
	got := audience.end(b)
	cpu := func(r *syscall.Rusage) time.Duration {
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	b.ReportMetric(float64((cpu(&after)-cpu(&before)).Nanoseconds())/1000/float64(got.Deliveries), "cpu-µs/delivery")
	b.ReportMetric(float64(cpu(&after)-cpu(&before))/float64(b.Elapsed()), "cores")
	b.ReportMetric(float64(got.Deliveries)/b.Elapsed().Seconds(), "deliveries/s")
	b.ReportMetric(float64(got.Deliveries)/float64(got.Messages), "deliveries/message")
	b.ReportMetric(got.P50, "p50-ms")
	b.ReportMetric(got.P99, "p99-ms")
	b.ReportMetric(0, "ns/op")
}

// audienceAddr tells the child process where to connect, audienceScene as whom.
const (
	audienceAddr  = "SLUICE_AUDIENCE_ADDR"
	audienceScene = "SLUICE_AUDIENCE_SCENE"
)

// child is the process of the clients.
type child struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

// heard is what its clients got.
type heard struct {
	Deliveries, Messages int
	P50, P99             float64 // in ms
}

func (s scene) start(b *testing.B, addr string) *child {
	own, err := os.Executable()
	must(b, err)
	cmd := exec.CommandContext(b.Context(), own, "-test.run=^TestAudience$", "-test.v")
	how, err := json.Marshal(s)
	must(b, err)
	cmd.Env = append(os.Environ(), audienceAddr+"="+addr, audienceScene+"="+string(how))
	in, err := cmd.StdinPipe()
	must(b, err)
	out, err := cmd.StdoutPipe()
	must(b, err)
	must(b, cmd.Start())
	c := &child{cmd, in, bufio.NewReader(out)}
	c.line(b, "ready")
	return c
}

// line returns what follows a word at the beginning of a line.
func (c *child) line(b *testing.B, word string) string {
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			b.Fatalf("the clients ended without saying %s: %v", word, err)
		}
		if rest, ok := bytes.CutPrefix([]byte(line), []byte(word+" ")); ok {
			return string(rest)
		}
	}
}

func (c *child) end(b *testing.B) (h heard) {
	must(b, c.in.Close())
	must(b, json.Unmarshal([]byte(c.line(b, "heard")), &h))
	must(b, c.cmd.Wait())
	return h
}

// TestAudience is the clients' process. By itself it does nothing.
func TestAudience(t *testing.T) {
	addr := os.Getenv(audienceAddr)
	if addr == "" {
		return
	}
	var s scene
	must(t, json.Unmarshal([]byte(os.Getenv(audienceScene)), &s))
	_, port, err := net.SplitHostPort(addr)
	must(t, err)
	number, err := strconv.Atoi(port)
	must(t, err)
	to := &syscall.SockaddrInet4{Port: number, Addr: [4]byte{127, 0, 0, 1}}
	ep, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	must(t, err)
	for i := range s.Clients {
		var names []string
		for n := range s.Each { // spread evenly, no two clients alike
			names = append(names, "c"+strconv.Itoa((i*7+n*(s.Channels/s.Each))%s.Channels))
		}
		fd := bareClient(t, to, names...)
		must(t, syscall.SetNonblock(fd, true))
		must(t, syscall.EpollCtl(ep, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)}))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	fmt.Println("ready now")
	out, err := json.Marshal(listen(t, ep, done))
	must(t, err)
	fmt.Println("heard " + string(out))
}

// listen reads what the clients get until nothing has come for a while after done.
func listen(t *testing.T, ep int, done <-chan struct{}) (h heard) {
	events, buf := make([]syscall.EpollEvent, 1024), make([]byte, 64<<10)
	var times []int64
	for {
		n, err := syscall.EpollWait(ep, events, 300)
		if err != nil && err != syscall.EINTR {
			t.Fatal(err)
		}
		for i := range max(n, 0) {
			n, err := syscall.Read(int(events[i].Fd), buf)
			if err != nil || n == 0 {
				t.Fatalf("read: %d, %v", n, err)
			}
			now, mark := time.Now().UnixMicro(), []byte(`"t":`)
			h.Messages += bytes.Count(buf[:n], []byte{0x81}) // the first byte of a message, which text has not
			for rest := buf[:n]; ; {
				at := bytes.Index(rest, mark)
				if at < 0 || len(rest) < at+len(mark)+16 {
					break
				}
				sent, err := strconv.ParseInt(string(rest[at+len(mark):at+len(mark)+16]), 10, 64)
				must(t, err)
				times = append(times, now-sent)
				rest = rest[at+len(mark)+16:]
			}
		}
		select {
		case <-done:
			if n == 0 {
				slices.Sort(times)
				h.Deliveries = len(times)
				h.P50, h.P99 = float64(times[len(times)/2])/1000, float64(times[len(times)*99/100])/1000
				return h
			}
		default:
		}
	}
}
