// Package late is a connection that joins the runtime's poller when somebody has to wait for it, not before. Many connections are taken over
// by an event loop before that: then a server of net/http has cost them four system calls less.
package late
