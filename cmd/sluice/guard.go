package main

import (
	"net"
	"net/http"

	"github.com/sluice-push/sluice/push/origin"
)

// guard keeps web pages away from what is not for them. A page of any site can make a browser on this machine send requests to loopback
// addresses, and by DNS rebinding read the answers; the browser says from where (Origin, Sec-Fetch-Site), and which host the page asked for.
type guard struct {
	pages *origin.Rules
}

// forProgramsAndPages refuses pages that the settings do not allow.
func (g guard) forProgramsAndPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.pages.Allow(r) {
			http.Error(w, "pages of this origin may not use the API: see the setting \"origins\"", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// notForPages refuses what another site's page has a browser load in the background. A person may follow a link.
func (g guard) notForPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			http.Error(w, "other sites may not load this", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// byLocalName refuses requests for hosts that are neither this machine nor in the settings, on a listener that only this machine reaches.
func (g guard) byLocalName(l net.Listener, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.namesThis(l, r) {
			http.Error(w, "this node listens on loopback and is asked for another host: name that in the setting \"origins\", as https://HOST, "+
				"if a proxy passes it on", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// namesThis reports whether the host that a request asks for may be that of a listener.
func (g guard) namesThis(l net.Listener, r *http.Request) bool {
	addr, ok := l.Addr().(*net.TCPAddr)
	return !ok || !addr.IP.IsLoopback() || r.Host == "" || origin.Local(r) ||
		g.pages.AllowOrigin("http://"+r.Host, "") || g.pages.AllowOrigin("https://"+r.Host, "")
}
