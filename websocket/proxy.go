package websocket

import (
	"net/http"
	"net/url"
)

// ProxyFromEnvironment is [http.ProxyFromEnvironment] for [Options.Proxy]: the variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY, for ws and
// wss as for http and https.
func ProxyFromEnvironment(u *url.URL) (*url.URL, error) {
	return http.ProxyFromEnvironment(&http.Request{URL: u})
}
