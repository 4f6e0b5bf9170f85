// Package delivery proves deliveries: it makes publications of which each byte can be checked, finds them in what a server sends, and records which
// of them a client has received.
package delivery
