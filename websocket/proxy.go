package websocket

import (
	"net/http"
	"net/url"
)

// ProxyFromEnvironment returns the proxy for a URL according to the variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY, for [Options.Proxy]. It is
// [http.ProxyFromEnvironment] for a URL instead of a request, and treats ws and wss as http and https.
func ProxyFromEnvironment(u *url.URL) (*url.URL, error) {
	return http.ProxyFromEnvironment(&http.Request{URL: u})
}
