package gateway

import (
	"net/url"
	"strings"
)

// originAllowed reports whether a page of an origin may connect to this host. Clients that are no browsers send none.
func (g *Gateway) originAllowed(origin, host string) bool {
	if origin == "" {
		return true
	}
	for _, allowed := range g.options.Origins {
		if allowed == "*" || strings.EqualFold(allowed, origin) {
			return true
		}
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}
