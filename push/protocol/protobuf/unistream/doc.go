// Package unistream is generated from unistream.proto: the one-way gRPC service of Centrifugo, under its published name. Its streams carry the
// pushes of package clientv1.
package unistream
