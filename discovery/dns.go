package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DNSOptions are the settings of a [DNS]. For every field zero is the default; nil is all defaults.
type DNSOptions struct {
	// Server is the address of the DNS server, HOST:PORT; by default those that the system uses.
	Server string
	// MinInterval and MaxInterval bound the time until a name is asked for again, which is otherwise the least time to live of the records that
	// were used; defaults 1 s and 5 min. Names that no record was found for, and those in the system's file of hosts, are asked for again after
	// 10 s, within these bounds.
	MinInterval, MaxInterval time.Duration
	// Timeout bounds one question; default 5 s. A name that got no answer is asked for again after a second, then after two, four and so on up to
	// 30 s, within the bounds above.
	Timeout time.Duration
}

// DNS is a [Resolver] that asks the domain name system. A service is HOST:PORT, whose A and AAAA records are the endpoints' addresses, or the name of
// SRV records, such as _rpc._tcp.example.com: then each target and port is an endpoint with the record's weight (0 counts as 1). Only the
// targets of the best priority are used (RFC 2782).
type DNS struct {
	options  DNSOptions
	resolver *net.Resolver
}

const (
	dnsQuiet    = 10 * time.Second // until a name without time to live is asked for again
	dnsMinRetry = time.Second
	dnsMaxRetry = 30 * time.Second
)

// NewDNS makes a DNS. MinInterval must not be above MaxInterval; otherwise both are MaxInterval.
func NewDNS(o *DNSOptions) *DNS {
	d := &DNS{}
	if o != nil {
		d.options = *o
	}
	value := func(p *time.Duration, standard time.Duration) {
		if *p <= 0 {
			*p = standard
		}
	}
	value(&d.options.MinInterval, time.Second)
	value(&d.options.MaxInterval, 5*time.Minute)
	value(&d.options.Timeout, 5*time.Second)
	d.options.MinInterval = min(d.options.MinInterval, d.options.MaxInterval)
	d.resolver = &net.Resolver{PreferGo: true, Dial: d.dial}
	return d
}

// dial connects to a DNS server, through a connection that looks at the times to live.
func (d *DNS) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if d.options.Server != "" {
		address = d.options.Server
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	seen, _ := ctx.Value(ttlKey{}).(*leastTTL)
	if err != nil || seen == nil {
		return conn, err
	}
	if packets, ok := conn.(net.PacketConn); ok { // package net sends datagrams over what is a PacketConn
		return &ttlPackets{ttlConn{Conn: conn, seen: seen}, packets}, nil
	}
	return &ttlStream{ttlConn{Conn: conn, seen: seen}, nil}, nil
}

// Watch implements [Resolver]. While DNS servers do not answer, or fail, the last set stays.
func (d *DNS) Watch(ctx context.Context, service string, update func([]Endpoint)) error {
	ask, err := d.question(service)
	if err != nil {
		return err
	}
	var told []Endpoint
	retry, telling := dnsMinRetry, false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		var seen leastTTL
		asking, cancel := context.WithTimeout(context.WithValue(ctx, ttlKey{}, &seen), d.options.Timeout)
		set, err := ask(asking)
		cancel()
		if err != nil {
			timer.Reset(d.bounded(retry))
			retry = min(2*retry, dnsMaxRetry)
			continue
		}
		retry = dnsMinRetry
		timer.Reset(d.bounded(seen.least(dnsQuiet)))
		set, _ = Normalize(set) // a record that makes no endpoint is passed over
		if ctx.Err() == nil && (!telling || !Same(told, set)) {
			told, telling = set, true
			update(slices.Clone(set))
		}
	}
}

func (d *DNS) bounded(t time.Duration) time.Duration {
	return min(max(t, d.options.MinInterval), d.options.MaxInterval)
}

// question returns a function that asks for a service once.
func (d *DNS) question(service string) (func(context.Context) ([]Endpoint, error), error) {
	if strings.HasPrefix(service, "_") {
		return func(ctx context.Context) ([]Endpoint, error) { return d.records(ctx, service) }, nil
	}
	host, port, err := net.SplitHostPort(service)
	if err != nil {
		return nil, fmt.Errorf("%w %q: neither HOST:PORT nor the name of SRV records, which begins with _: %w", ErrService, service, err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); host == "" || err != nil || n == 0 {
		return nil, fmt.Errorf("%w %q: not HOST:PORT with a port between 1 and 65535", ErrService, service)
	}
	return func(ctx context.Context) ([]Endpoint, error) { return d.addresses(ctx, host, port) }, nil
}

// addresses asks for A and AAAA records.
func (d *DNS) addresses(ctx context.Context, host, port string) ([]Endpoint, error) {
	ips, err := d.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, unlessNotFound(err)
	}
	set := make([]Endpoint, len(ips))
	for i, ip := range ips {
		set[i].Address = net.JoinHostPort(ip.Unmap().String(), port)
	}
	return set, nil
}

// records asks for SRV records.
func (d *DNS) records(ctx context.Context, name string) ([]Endpoint, error) {
	_, records, err := d.resolver.LookupSRV(ctx, "", "", name)
	if err != nil && len(records) == 0 { // records beside an error are good ones beside others
		return nil, unlessNotFound(err)
	}
	var set []Endpoint
	for _, r := range records { // sorted by priority
		if r.Priority != records[0].Priority {
			break
		}
		host := strings.TrimSuffix(r.Target, ".")
		if host == "" { // the service is decidedly not available (RFC 2782)
			continue
		}
		set = append(set, Endpoint{Address: net.JoinHostPort(host, strconv.Itoa(int(r.Port))), Weight: max(int(r.Weight), 1)})
	}
	return set, nil
}

// unlessNotFound returns nil for the error that says that there are no such records, which is an answer.
func unlessNotFound(err error) error {
	if no := new(net.DNSError); errors.As(err, &no) && no.IsNotFound {
		return nil
	}
	return err
}
