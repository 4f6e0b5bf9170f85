package main

import (
	"net"
	"net/http"

	"github.com/sluice-push/sluice/push/origin"
)

// crossSite protects the node's HTTP endpoints from web pages. A page of any site can make a browser on this machine send requests to loopback
// addresses, and by DNS rebinding read the answers. The browser names the page's origin (Origin, Sec-Fetch-Site) and the host that the page
// asked for.
type crossSite struct {
	pages *origin.Rules
}

// allowOrigins refuses requests of pages whose origin the settings do not allow. Requests of other programs pass.
func (g crossSite) allowOrigins(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.pages.Allow(r) {
			http.Error(w, "origin not allowed for the API: add it to the setting \"origins\"", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuseEmbedding refuses requests that a page of another site makes in the background, such as images and fetches. Navigation by a link passes.
func (g crossSite) refuseEmbedding(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			http.Error(w, "cross-site request not allowed", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkHost refuses requests on a loopback listener whose Host is neither local nor in the settings. That defeats DNS rebinding.
func (g crossSite) checkHost(l net.Listener, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.hostAllowed(l, r) {
			http.Error(w, "host not allowed on a loopback address: behind a proxy, add the host to the setting \"origins\", as "+
				"https://HOST", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostAllowed reports whether the Host of a request is acceptable on a listener.
func (g crossSite) hostAllowed(l net.Listener, r *http.Request) bool {
	addr, ok := l.Addr().(*net.TCPAddr)
	return !ok || !addr.IP.IsLoopback() || r.Host == "" || origin.Local(r) ||
		g.pages.AllowOrigin("http://"+r.Host, "") || g.pages.AllowOrigin("https://"+r.Host, "")
}
