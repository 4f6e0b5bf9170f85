package client

import "time"

// Backoff returns how long a client with these options waits after a number of failures.
func Backoff(o *Options, failed int) time.Duration {
	return (&Client{options: o.withDefaults()}).backoff(failed)
}

// Chosen returns how many calls the balancer counts as under way.
func (c *Client) Chosen() (n int) {
	for _, t := range c.balancer.Targets() {
		n += t.Pending()
	}
	return n
}
