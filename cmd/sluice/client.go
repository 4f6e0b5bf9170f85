package main

import (
	"cmp"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/push/protocol"
)

// clientFlags say how a command connects as a client. The command sets the variable transport to the default.
type clientFlags struct {
	Transport string `enum:"${transports}," default:"${transport}" help:"Transport of the client's connection: ${transports}."`
	Protocol  string `enum:"${protocols}," default:"" help:"Form of the client protocol: ${protocols}. By default the first of them that the transport carries."`
	Token     string `env:"SLUICE_TOKEN" help:"Token of the client, if the node requires authentication."`
}

// check reports flags that cannot work together.
func (c *clientFlags) check() error { return c.options("").Validate() }

// protocol returns the form of the protocol that the flags choose.
func (c *clientFlags) protocol() string {
	return cmp.Or(append([]string{c.Protocol}, clientconn.ProtocolsOf(c.Transport)...)...)
}

// options returns the options of a connection that begins with the given commands.
func (c *clientFlags) options(url string, commands ...*protocol.Command) *clientconn.Options {
	return &clientconn.Options{URL: url, Transport: c.Transport, Protocol: c.Protocol, Commands: commands}
}

// connect returns the connect command.
func (c *clientFlags) connect() *protocol.Command {
	cmd := &protocol.Command{ID: 1, Kind: protocol.KindConnect}
	cmd.Connect = protocol.ConnectRequest{Token: c.Token, Name: "sluice"}
	return cmd
}
