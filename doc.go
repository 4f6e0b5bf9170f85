// Package sluice is the root of a repository with two products and no code of its own.
//
// The library, which uses the standard library only: sessions over framed TCP, TLS, Unix, UDP and WebSocket connections. Start
// at the packages session, codec and websocket.
//
// The platform, built on the library: whatever is published to a channel reaches every subscriber, in order and resumable.
// Start at the command in cmd/sluice and at the package push, which holds its vocabulary.
//
// ARCHITECTURE.md says how the packages fit together; layers_test.go holds the rules that keep it that way.
package sluice
