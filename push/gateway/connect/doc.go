// Package connect has the transport of clients that speak gRPC-Web or the Connect protocol, by connect-go on net/http: browsers, which cannot speak
// gRPC, and clients behind proxies that pass HTTP only. It answers gRPC too; package grpc does so for less.
//
// The services are those of package grpc: sluice.client.v1.Client, with Consume and Send, and Connect where HTTP/2 is spoken, and the one-way
// service of Centrifugo.
//
// # A stream
//
// connect-go reads the request, writes the header, and writes the end of the stream. What is between is written by package stream: the hub's
// frames have the envelope that the three protocols share, five bytes before each message, and are written as they are. So a publication is
// encoded once for all clients, also those of JSON.
//
// gRPC-Web in text is decoded and encoded between net/http and connect-go, for each client. The bytes that are counted as sent are those before.
//
// The goroutine of the request writes. With Connect, a second goroutine reads commands.
//
// # JSON
//
// Messages in JSON are those of the generated code, in the canonical mapping of Protobuf, where data is in base64. They are made of the Protobuf
// form by decoding and encoding again, which costs about 6 µs for a publication, once for all clients that get it, and as much for each command
// and reply.
package connect
