// Package unistreamconnect is generated from unistream.proto: the service of package unistream for gRPC-Web and Connect.
package unistreamconnect
