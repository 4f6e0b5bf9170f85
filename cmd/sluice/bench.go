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

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/report"
)

// benchCmd holds the commands that generate load and compare results.
type benchCmd struct {
	Run     benchRunCmd     `cmd:"" default:"withargs" help:"Run a load test, and verify that every client gets everything, once, in order and unchanged."`
	Compare benchCompareCmd `cmd:"" help:"Compare two results."`
}

// benchRunCmd puts load on a server. Its flags are the fields of loadtest.Spec and the options of the output.
type benchRunCmd struct {
	benchServer  `group:"The server:"`
	benchClients `group:"The clients:"`
	benchTraffic `group:"What is published:"`
	benchTimes   `group:"Times:"`
	benchOutput  `group:"The result:"`

	tokens []string // of the file Tokens, read by Validate
}

type benchServer struct {
	URL        string   `default:"http://127.0.0.1:8000" env:"SLUICE_URL" help:"Public address of a node, http or https; or, with transport websocket, the WebSocket URL of another server, ws://HOST:PORT/PATH or wss."`
	Nodes      []string `name:"node" placeholder:"URL" help:"Address of another node of the same cluster, as in --url; may be repeated. Clients connect to all nodes in turn."`
	Route      bool     `help:"Clients ask the node to which gateways of the cluster they should go, and when a connection ends they ask again, come back and resume (one, market without stalled clients, idle)."`
	Transport  string   `default:"websocket" enum:"${transports}" help:"Transport of the clients: ${transports}."`
	Protocol   string   `default:"" enum:"${protocols},plain," help:"Protocol of the clients: ${protocols} (the client protocol in that form; by default the first of them that the transport carries), or, with transport websocket, plain, in which each message is a publication and every client gets all of them."`
	Publish    string   `default:"api" enum:"api,client" help:"Way to publish: api (the HTTP API) or client (a WebSocket client)."`
	PublishURL string   `name:"publish-url" placeholder:"URL" help:"URL of the API's publish method, if it is not /api/publish on the same host."`
	APIKey     string   `name:"api-key" env:"SLUICE_API_KEY" help:"Key of the HTTP API; prefer the environment variable to the command line."`
	Token      string   `env:"SLUICE_TOKEN" help:"Token of the clients, if the server requires authentication."`
	Tokens     string   `type:"existingfile" placeholder:"FILE" help:"File with a token for each client, one a line, instead of --token."`
	ServerPID  []int    `name:"server-pid" placeholder:"PID" help:"Process of the server, to measure its CPU and memory; may be repeated. By default the process that listens at the URL, if it runs on this host."`
}

type benchClients struct {
	Shape       loadtest.Shape `default:"one" enum:"one,market,slow,storm,idle" help:"Shape of the load. one: a channel for all clients; market: many channels, each client subscribes to some; slow: some clients stop reading; storm: all clients are disconnected at once and resume; idle: nothing is published."`
	Clients     int            `default:"1000" help:"Number of clients."`
	Prefix      string         `default:"ticks:load-" help:"Prefix of the channel names, before the number."`
	Channels    int            `default:"0" help:"Number of channels (market, storm); 0: 2000, in shape storm 1."`
	Each        int            `default:"0" help:"Number of channels that each client subscribes to (market, storm); 0: 20, in shape storm 1."`
	Stalled     float64        `default:"0" help:"Fraction of the clients that stop reading (slow, market); 0 means 0.1 in shape slow."`
	StallFor    time.Duration  `default:"0s" help:"Time for which these clients stop reading, in the middle of the measurement; 0: all of it."`
	StallBuffer int            `default:"16384" help:"Receive buffer of these clients, in bytes."`
	Connect     int            `default:"64" help:"Number of clients that connect at the same time."`
	Rejoin      int            `default:"0" help:"Number of clients that connect again at the same time after a storm; 0: that of --connect."`
	RetryMin    time.Duration  `default:"20ms" help:"Shortest pause before a client that could not connect tries again (storm)."`
	RetryMax    time.Duration  `default:"1s" help:"The longest. The pause is random, and its bound doubles with each attempt."`
	Processes   int            `default:"0" help:"Number of processes for the clients; 0: as many as the limit of open files requires."`
	Spread      bool           `help:"Connect from many addresses of 127.0.0.0/8, because one address has ports for only 28,000 clients of a server on this host."`
	Network     string         `placeholder:"CONDITIONS" help:"Simulated network between the clients and the server: dsl, 3g, edge, wifi-lossy, flaky, or items such as delay=200ms,jitter=50ms,down=50kbit,stall=2s/30s; see docs/bench.md."`
}

type benchTraffic struct {
	Rate   benchRate `default:"1" help:"Publications per second, all channels together, or max: each one is published when all clients have the last."`
	Window int       `default:"1" help:"Number of publications in flight, with --rate max."`
	Bytes  int       `default:"256" help:"Size of a publication's data in bytes, 64 or more."`
	Zipf   float64   `default:"0" help:"Zipf exponent of the channels' rates, above 1 (market); 0: equal rates."`
	Seed   uint64    `default:"1" help:"Seed of the random numbers."`
}

type benchTimes struct {
	Duration time.Duration `default:"10s" help:"Duration of the measurement."`
	Warmup   time.Duration `default:"2s" help:"Duration of the warm-up, before the measurement."`
	Settle   time.Duration `default:"2s" help:"Pause between the last subscription and the first publication."`
	Patience time.Duration `default:"10s" help:"Time to wait for missing deliveries at the end."`
}

type benchOutput struct {
	JSON  string `name:"json" type:"path" placeholder:"FILE" help:"File for the result, to be read by sluice bench compare."`
	Plain bool   `help:"Print lines instead of a full screen, as if the output were not a terminal or NO_COLOR were set."`
}

// Help is shown by sluice bench --help.
func (benchRunCmd) Help() string {
	return "The clients connect and subscribe. Publications follow a fixed schedule, and the clients verify every byte that they receive. " +
		"Latency is measured from the time at which a publication was due. For a node with made-up prices, and 10,000 clients:\n\n" +
		"    sluice serve --demo\n" +
		"    sluice bench --clients 10000 --rate 10 --duration 30s --json a.json\n\n" +
		"To compare two results, use sluice bench compare a.json b.json. Ctrl-C ends a run early and prints the result so far.\n\n" +
		"The exit code is 0 if every client connected and received everything, once, in order and unchanged; 1 if not, or if the run was " +
		"interrupted; 2 if the flags are not valid. For details see docs/bench.md."
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
	if c.Tokens != "" {
		text, err := os.ReadFile(c.Tokens)
		if err != nil {
			return err
		}
		c.tokens = strings.Fields(string(text))
	}
	if err := c.spec().Validate(); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "loadtest: ")) // a user of the command does not know packages
	}
	return nil
}

// spec returns the specification that the flags describe.
func (c *benchRunCmd) spec() loadtest.Spec {
	return loadtest.Spec{
		URL: c.URL, Nodes: c.Nodes, Route: c.Route, Transport: c.Transport, Protocol: c.Protocol, Publish: c.Publish, PublishURL: c.PublishURL, Key: c.APIKey, Token: c.Token,
		Tokens: c.tokens,
		Shape:  c.Shape, Clients: c.Clients, Channels: c.Channels, Each: c.Each, Zipf: c.Zipf, Prefix: c.Prefix,
		Rate: float64(c.Rate), Window: c.Window, Bytes: c.Bytes, Seed: c.Seed,
		Stalled: c.Stalled, StallFor: c.StallFor, StallBuffer: c.StallBuffer, Connect: c.Connect,
		Rejoin: c.Rejoin, RetryMin: shortest(c.RetryMin), RetryMax: shortest(c.RetryMax),
		Settle: shortest(c.Settle), Warmup: shortest(c.Warmup), Duration: c.Duration, Patience: shortest(c.Patience),
		Processes: c.Processes, Spread: c.Spread, Network: c.Network,
	}
}

// shortest returns a nanosecond for 0, because 0 in a spec selects the default.
func shortest(d time.Duration) time.Duration {
	if d == 0 {
		return time.Nanosecond
	}
	return d
}

// Run generates load until the run is complete or a signal ends it. A second Ctrl-C ends the process at once.
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
		if err := checkReachable(ctx, node, address); err != nil {
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

// dialAddress returns the host and port of a URL.
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

// checkReachable returns an error if no server accepts connections at the address. Otherwise every client of the run would report that by
// itself.
func checkReachable(ctx context.Context, name, address string) error {
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("%s does not answer: %w; start a node with sluice serve --demo, or give its address with --url", name, unwrapURL(err))
	}
	return conn.Close()
}

// benchRun is one run of the load test.
type benchRun struct {
	env        *environment
	spec       loadtest.Spec
	file       *report.File // nil: the result is not kept
	unmeasured error        // why the server's processes could not be found

	mu      sync.Mutex // guards the fields below: an interrupt may arrive while the run reports
	display *report.Display
	watch   *report.Sampler
	reached loadtest.Phase // the last phase that has begun
}

// show chooses the display: a full screen on a terminal, otherwise lines on standard error, because standard output may be redirected to a file.
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
	result, err := loadtest.Run(ctx, b.spec, &loadtest.Options{Progress: b.progress, Phase: b.phase, Worker: benchWorker})
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
		result.Problems = append(result.Problems, fmt.Sprintf("server processes not measured: %v; name them with --server-pid", b.unmeasured))
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
		return errors.New("interrupted; the result covers the time until then")
	}
	return b.checkResult(result)
}

// explain turns the error of a run without a result into one that says what the user can do.
func (b *benchRun) explain(err error) error {
	text := strings.TrimPrefix(err.Error(), "loadtest: ")
	if b.reached == loadtest.Connecting {
		text += fmt.Sprintf("; check --token, and that the namespace of channel %s0 exists (--prefix)", b.spec.Prefix)
	}
	return errors.New(text)
}

// checkResult returns an error if the server lost something or failed. The error says what the user can do.
func (b *benchRun) checkResult(r *loadtest.Result) error {
	switch {
	case report.Sound(r):
		return nil
	case r.Publications.Due > 0 && r.Publications.Sent == 0:
		return errors.New("the server accepted no publication; check --api-key, --publish and --publish-url")
	}
	return errors.New("the server failed the test; see the summary")
}

func (b *benchRun) progress(p loadtest.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watch.Sample(time.Now())
	b.display.Show(p)
}

func (b *benchRun) phase(p loadtest.Phase) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watch.Phase(p, time.Now())
	b.reached = p
}

// interrupted restores the terminal before the run has ended, because a second Ctrl-C ends the process at once.
func (b *benchRun) interrupted() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.display.Close()
	_, _ = fmt.Fprintln(b.env.stderr, "sluice: stopping; press Ctrl-C again to stop at once, without a result")
}

// benchWorker returns the command that starts a worker process, which holds clients.
func benchWorker() *exec.Cmd {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	return exec.Command(path, "bench-worker")
}

// benchWorkerCmd is the command that benchWorker starts. The run controls it through its standard input and output.
type benchWorkerCmd struct{}

// Run holds clients until the run tells it to end, or the run's process has gone.
func (*benchWorkerCmd) Run(env *environment) error {
	signal.Ignore(os.Interrupt) // a terminal sends the signal to all processes of a run; the main process ends the workers
	return loadtest.Work(context.Background(), env.stdin, env.stdout)
}

// benchCompareCmd compares two results.
type benchCompareCmd struct {
	A string `arg:"" name:"a.json" type:"existingfile" help:"Result file, written by sluice bench --json."`
	B string `arg:"" name:"b.json" type:"existingfile" help:"Result file to compare it with."`
}

// Help is shown by sluice bench compare --help.
func (benchCompareCmd) Help() string {
	return "The output lists the differences between the settings and the hosts of the runs first, then the figures with the ratio of B to A. " +
		"A difference below 5 % is not judged.\n\n" +
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
