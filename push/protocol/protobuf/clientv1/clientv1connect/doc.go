// Package clientv1connect is generated from client.proto: the service of package clientv1 for gRPC-Web and Connect.
package clientv1connect
