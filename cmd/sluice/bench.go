package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/push/load"
	"github.com/sluice-push/sluice/push/load/report"
)

// benchCmd holds the commands about load.
type benchCmd struct {
	Run     benchRunCmd     `cmd:"" default:"withargs" help:"Put load on a server, and prove that every client gets everything, once, in order and unchanged."`
	Compare benchCompareCmd `cmd:"" help:"Set two results side by side."`
}

// benchRunCmd puts load on a server. Its flags are the fields of load.Spec, and what is done with the result.
type benchRunCmd struct {
	benchServer  `group:"The server:"`
	benchClients `group:"The clients:"`
	benchTraffic `group:"What is published:"`
	benchTimes   `group:"Times:"`
	benchOutput  `group:"The result:"`
}

type benchServer struct {
	URL        string   `default:"http://127.0.0.1:8000" env:"SLUICE_URL" help:"A node's public address, http or https; or where clients connect, ws://HOST:PORT/PATH or wss."`
	Nodes      []string `name:"node" placeholder:"URL" help:"Another node of the same cluster, with an address like --url; may be repeated. Connections go to all of them in turn."`
	Protocol   string   `default:"centrifuge" enum:"centrifuge,plain" help:"What clients speak: centrifuge (JSON), or plain: each message is a publication, and who connects gets all."`
	Publish    string   `default:"api" enum:"api,client" help:"How publications get in: through the HTTP api, or from a client."`
	PublishURL string   `name:"publish-url" placeholder:"URL" help:"The API's method publish, when it is not /api/publish of the same host."`
	APIKey     string   `name:"api-key" env:"SLUICE_API_KEY" help:"Key of the HTTP API; better in the variable than on the command line."`
	Token      string   `env:"SLUICE_TOKEN" help:"Who the clients are, where the server asks for that."`
	ServerPID  []int    `name:"server-pid" placeholder:"PID" help:"Processes whose CPU and memory are measured; when the server is on this host, whoever listens at the URL by default."`
}

type benchClients struct {
	Shape       load.Shape    `default:"one" enum:"one,market,slow,storm,idle" help:"one: a channel for all; market: many channels, of which each client wants some; slow: some clients stop reading; storm: all are cut at once and resume; idle: nothing is published."`
	Clients     int           `default:"1000" help:"How many connect."`
	Prefix      string        `default:"ticks:load-" help:"What channels are called, before their number."`
	Channels    int           `default:"2000" help:"market: how many channels there are."`
	Each        int           `default:"20" help:"market: to how many each client subscribes."`
	Stalled     float64       `default:"0" help:"slow, market: share of the clients that stop reading; slow: 0.1 if this is 0."`
	StallFor    time.Duration `default:"0s" help:"How long they do, in the middle of what is measured; 0: all the time."`
	StallBuffer int           `default:"16384" help:"Receive buffer of these, in bytes."`
	Connect     int           `default:"64" help:"How many are connecting at a time."`
	Processes   int           `default:"0" help:"Processes that hold the clients; 0: as many as the limit of open files demands."`
	Spread      bool          `help:"Connect from many addresses of 127.0.0.0/8: one has ports for 28,000 clients of a server on this host."`
	Network     string        `placeholder:"CONDITIONS" help:"What is between the clients and the server: dsl, 3g, edge, wifi-lossy, flaky, or as in delay=200ms,jitter=50ms,down=50kbit,stall=2s/30s. docs/bench.md has all of it."`
}

type benchTraffic struct {
	Rate   benchRate `default:"1" help:"Publications a second in all, or max: the next one when all clients have the last."`
	Window int       `default:"1" help:"--rate max: how many publications are under way."`
	Bytes  int       `default:"256" help:"Data of a publication, 64 bytes or more."`
	Zipf   float64   `default:"0" help:"market: how unequal the channels' rates are, an exponent above 1; 0: all alike."`
	Seed   uint64    `default:"1" help:"Of everything that is random."`
}

type benchTimes struct {
	Duration time.Duration `default:"10s" help:"How long is measured."`
	Warmup   time.Duration `default:"2s" help:"How long is published before that."`
	Settle   time.Duration `default:"2s" help:"Rest between the last subscription and the first publication."`
	Patience time.Duration `default:"10s" help:"How long is waited for what is missing at the end."`
}

type benchOutput struct {
	JSON  string `name:"json" type:"path" placeholder:"FILE" help:"Keep the result in a file, for sluice bench compare."`
	Plain bool   `help:"Lines instead of a screen, as where the output is no terminal or NO_COLOR is set."`
}

// Help is shown by sluice bench --help.
func (benchRunCmd) Help() string {
	return "Clients connect and subscribe, publications become due by a schedule that nothing delays, and every byte that arrives is compared with " +
		"what was published. Latencies count from when a publication was due. For a node with made-up prices, and 10,000 clients:\n\n" +
		"    sluice serve --demo\n" +
		"    sluice bench --clients 10000 --rate 10 --duration 30s --json a.json\n\n" +
		"With sluice bench compare a.json b.json two results are set side by side. Ctrl-C ends a run early, with what was found so far.\n\n" +
		"The exit code is 0 when every client came in and got everything, once, in order and unchanged; 1 when not, or when the run was " +
		"broken off; 2 when the flags make no sense. All about it: docs/bench.md."
}

// benchRate is a rate, negative for max.
type benchRate float64

// UnmarshalText accepts "max" and positive numbers.
func (r *benchRate) UnmarshalText(text []byte) error {
	if string(text) == "max" {
		*r = -1
		return nil
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(v > 0) {
		return fmt.Errorf("unknown rate %q: use a number of publications a second greater than 0, or max", text)
	}
	*r = benchRate(v)
	return nil
}

// Validate is called by kong.
func (c *benchRunCmd) Validate() error {
	if err := c.spec().Validate(); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "load: ")) // who calls a command knows no packages
	}
	return nil
}

// spec is what the flags ask for.
func (c *benchRunCmd) spec() load.Spec {
	return load.Spec{
		URL: c.URL, Nodes: c.Nodes, Protocol: c.Protocol, Publish: c.Publish, PublishURL: c.PublishURL, Key: c.APIKey, Token: c.Token,
		Shape: c.Shape, Clients: c.Clients, Channels: c.Channels, Each: c.Each, Zipf: c.Zipf, Prefix: c.Prefix,
		Rate: float64(c.Rate), Window: c.Window, Bytes: c.Bytes, Seed: c.Seed,
		Stalled: c.Stalled, StallFor: c.StallFor, StallBuffer: c.StallBuffer, Connect: c.Connect,
		Settle: shortest(c.Settle), Warmup: shortest(c.Warmup), Duration: c.Duration, Patience: shortest(c.Patience),
		Processes: c.Processes, Spread: c.Spread, Network: c.Network,
	}
}

// shortest makes of no time the shortest there is: in a spec, 0 asks for the default.
func shortest(d time.Duration) time.Duration {
	if d == 0 {
		return time.Nanosecond
	}
	return d
}

// Run runs the load until it is done or told to end. A second Ctrl-C ends the process at once.
func (c *benchRunCmd) Run(env *environment) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return c.run(ctx, env)
}

func (c *benchRunCmd) run(ctx context.Context, env *environment) error {
	b := &benchRun{env: env, spec: c.spec()}
	pids := c.ServerPID
	for _, node := range append([]string{c.URL}, c.Nodes...) {
		address, err := dialAddress(node)
		if err != nil {
			return err
		}
		if err := answers(ctx, node, address); err != nil {
			return err
		}
		if len(c.ServerPID) > 0 {
			continue
		}
		found, err := report.Listeners(ctx, address)
		b.unmeasured = errors.Join(b.unmeasured, err)
		pids = append(pids, found...)
	}
	if c.JSON != "" {
		var err error
		if b.file, err = report.Create(c.JSON); err != nil {
			return err
		}
	}
	b.watch = report.NewSampler(pids...)
	b.show(c.Plain)
	return b.run(ctx)
}

// dialAddress is the host and port of a URL.
func dialAddress(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "ws": "80", "https": "443", "wss": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// answers says so when nobody is there: a run would find that out a thousand times.
func answers(ctx context.Context, name, address string) error {
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("%s does not answer: %w; start a node there with sluice serve --demo, or say with --url where one is", name, unwrapURL(err))
	}
	return conn.Close()
}

// benchRun is a run of load.
type benchRun struct {
	env        *environment
	spec       load.Spec
	file       *report.File // nil: the result is not kept
	unmeasured error        // why the server's processes are not known, when they could be

	mu      sync.Mutex // guards what follows: the run may be interrupted while it reports
	display *report.Display
	watch   *report.Sampler
	reached load.Phase // the last phase that has begun
}

// show chooses how the run is shown: as a screen on a terminal, elsewhere as lines on standard error, for standard output may be kept.
func (b *benchRun) show(plain bool) {
	if f, ok := b.env.stdout.(*os.File); ok && !plain && b.env.variable("NO_COLOR") == "" && b.env.variable("TERM") != "dumb" {
		if width := report.Width(f); width != nil {
			b.display = report.NewDisplay(f, b.spec, &report.DisplayOptions{Width: width})
			return
		}
	}
	b.display = report.NewDisplay(b.env.stderr, b.spec, nil)
}

func (b *benchRun) run(ctx context.Context) error {
	host := report.Host()
	unwatch := context.AfterFunc(ctx, b.interrupted)
	result, err := load.Run(ctx, b.spec, &load.Options{Progress: b.progress, Phase: b.phase, Worker: benchWorker})
	unwatch()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.display.Close()
	if result == nil {
		if b.file != nil {
			b.file.Drop()
		}
		return b.explain(err)
	}
	result.Host, result.Version = &host, version()
	b.watch.Fill(result)
	if b.unmeasured != nil {
		result.Problems = append(result.Problems, fmt.Sprintf("the server's processes are not measured: %v; --server-pid names them", b.unmeasured))
	}
	if _, printErr := fmt.Fprint(b.env.stdout, report.Summary(result)); err == nil {
		err = printErr
	}
	if b.file != nil {
		err = errors.Join(err, b.file.Keep(result))
	}
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return errors.New("interrupted; this is what was found until then")
	}
	return b.judge(result)
}

// explain says what may be done about a run that had no result.
func (b *benchRun) explain(err error) error {
	text := strings.TrimPrefix(err.Error(), "load: ")
	if b.reached == load.Connecting {
		text += fmt.Sprintf("; channels are called %s0, --prefix gives them another name; --token says who the clients are", b.spec.Prefix)
	}
	return errors.New(text)
}

// judge returns an error for a result that is not as it should be, and what may be done about it.
func (b *benchRun) judge(r *load.Result) error {
	switch {
	case report.Sound(r):
		return nil
	case r.Publications.Due > 0 && r.Publications.Sent == 0:
		return errors.New("the server accepted no publication; --api-key shows a key, --publish and --publish-url say how they get in")
	}
	return errors.New("the server did not do what it should have")
}

func (b *benchRun) progress(p load.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watch.Sample(time.Now())
	b.display.Show(p)
}

func (b *benchRun) phase(p load.Phase) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watch.Phase(p, time.Now())
	b.reached = p
}

// interrupted gives the terminal back before the run has ended, so that a second Ctrl-C leaves nothing behind.
func (b *benchRun) interrupted() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.display.Close()
	_, _ = fmt.Fprintln(b.env.stderr, "sluice: ending; Ctrl-C once more ends at once, without a result")
}

// benchWorker starts a process that holds clients.
func benchWorker() *exec.Cmd {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	return exec.Command(path, "bench-worker")
}

// benchWorkerCmd is what benchWorker starts. The run talks to it through its standard input and output.
type benchWorkerCmd struct{}

// Run holds clients until it is told to end, or the run is gone.
func (*benchWorkerCmd) Run(env *environment) error {
	signal.Ignore(os.Interrupt) // a terminal tells all processes of a run; the first one ends the others
	return load.Work(context.Background(), env.stdin, env.stdout)
}

// benchCompareCmd compares two results.
type benchCompareCmd struct {
	A string `arg:"" name:"a.json" type:"existingfile" help:"A result that sluice bench --json has kept."`
	B string `arg:"" name:"b.json" type:"existingfile" help:"Another one."`
}

// Help is shown by sluice bench compare --help.
func (benchCompareCmd) Help() string {
	return "What the runs were asked for differently comes first, and on which hosts; then the figures, and what B is of A. Below 5 % no difference " +
		"is claimed.\n\n" +
		"    sluice bench compare before.json after.json"
}

// Run prints the comparison.
func (c *benchCompareCmd) Run(env *environment) error {
	a, err := report.Open(c.A)
	if err != nil {
		return err
	}
	b, err := report.Open(c.B)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(env.stdout, report.Compare(*a, *b))
	return err
}
