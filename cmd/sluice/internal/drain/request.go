package drain

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/gateway"
)

// Path is where the internal address of a node takes requests to drain: POST only.
const Path = "/drain"

// ServeHTTP begins the drain of the node, and answers with a [Report]. The process ends then, as it does after SIGTERM. If the drain has begun before,
// the request changes nothing. In the query, delay and spread are the times to use instead of those of the configuration. With wait=true the answer goes
// on: a line for each state, until the process has ended.
func (d *Drain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if reason := refusal(r); reason != "" {
		http.Error(w, reason, http.StatusForbidden)
		return
	}
	plan, isWatching, err := parse(r, d.defaults)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	isFirst, err := d.request(plan, isWatching)
	switch {
	case err != nil:
		w.Header().Set("Retry-After", gateway.RetryAfter(gateway.MinRetry))
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	case isWatching:
		defer d.leaveWatch()
		d.watch(w, isFirst)
		return
	}
	report, _ := d.report()
	report.Started = isFirst
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(report) // an error means that the client has left
}

// request begins the drain for a request and reports whether it had not begun before. A request that watches the drain is counted, unless there is
// an error.
func (d *Drain) request(plan config.Shutdown, isWatching bool) (isFirst bool, err error) {
	clients := d.len()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.clients == nil:
		return false, errors.New("the node waits for its broker and has no clients: end the process by SIGTERM")
	case isWatching && (d.watchers == mostWatchers || d.state == Ended):
		return false, errors.New("too many requests wait for the end of the node: send the request without wait")
	case isWatching:
		d.watchers++
		d.watching.Add(1)
	}
	if isFirst = d.beginLocked(plan, clients); isFirst {
		close(d.requested)
	}
	return isFirst, nil
}

// refusal returns why a request may not drain the node, "" if it may. The internal address asks for no key. So a page in a browser may never drain the
// node, and another machine may not without a client certificate, which internal_tls.client_ca has signed.
func refusal(r *http.Request) string {
	site := r.Header.Get("Sec-Fetch-Site")
	isOfPage := len(r.Header.Values("Origin")) > 0 || site != "" && site != "none" && site != "same-origin"
	hasCertificate := r.TLS != nil && len(r.TLS.PeerCertificates) > 0 // and it is valid, or the handshake had failed
	switch {
	case isOfPage:
		return "a page must not drain a node: use sluice drain"
	case !hasCertificate && !isSameMachine(r):
		return "another machine needs a client certificate to drain a node: run sluice drain on the node's machine, or set internal_tls.client_ca"
	}
	return ""
}

// isSameMachine reports whether a request comes from the node's machine: from a loopback address, or from the address that it was sent to.
func isSameMachine(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	addr := from.Addr().Unmap()
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return addr.IsLoopback() || ok && addr == local.AddrPort().Addr().Unmap()
}

// parse reads the times that a request gives instead of those of the plan, and whether it waits for the end.
func parse(r *http.Request, plan config.Shutdown) (_ config.Shutdown, isWatching bool, err error) {
	if r.ContentLength != 0 {
		return plan, false, errors.New("the request must not have a body: delay, spread and wait are in the query")
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return plan, false, fmt.Errorf("the query: %w", err)
	}
	for name, values := range query {
		if len(values) > 1 {
			return plan, false, fmt.Errorf("%s is given %d times: give it once", name, len(values))
		}
		switch name {
		case "delay":
			err = parseTime(&plan.Delay, values[0])
		case "spread":
			err = parseTime(&plan.Spread, values[0])
		case "wait":
			if isWatching, err = strconv.ParseBool(values[0]); err != nil {
				err = errors.New("use true or false")
			}
		default:
			err = errors.New("no such parameter: use delay, spread and wait")
		}
		if err != nil {
			return plan, false, fmt.Errorf("%s: %w", name, err)
		}
	}
	return plan, isWatching, nil
}

func parseTime(d *config.Duration, text string) error {
	if err := d.UnmarshalText([]byte(text)); err != nil {
		return err
	}
	return checkTime(time.Duration(*d))
}
