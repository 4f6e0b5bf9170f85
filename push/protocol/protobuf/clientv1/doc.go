// Package clientv1 is generated from client.proto: the messages of the client protocol in Protobuf, and the service that carries them over gRPC.
// Package protobuf encodes and decodes the same messages without reflection; servers use that one.
package clientv1
