// Package echo is the method Echo in every form of body that package rpc has: the answer is the text of the call. In Thrift it is
//
//	service Echo { string Echo(1: string text) }
//
// and in Protobuf a method whose argument and result are google.protobuf.StringValue.
package echo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
	"github.com/sluice-push/sluice/rpc/protobuf"
	"github.com/sluice-push/sluice/rpc/thrift"
)

// Names of the method, and of the service in a registry.
const (
	Method  = "Echo"
	Service = "echo"
)

// Handle has a server handle Echo. Bodies of JSON and raw bodies go back as they are: they need not be understood. None of the handlers waits, so they
// run where the connection is read.
func Handle(srv *rpc.Server) {
	methods := []rpc.Method{
		{Protocol: frame.Bare, Func: func(_ context.Context, c *rpc.Call, _ []byte) ([]byte, error) { return c.Body(), nil }},
		rpc.MethodOf(protobuf.Form, func(_ context.Context, in *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
			return &wrapperspb.StringValue{Value: in.GetValue()}, nil
		}),
	}
	for _, form := range []rpc.Form{thrift.Binary, thrift.Compact} {
		methods = append(methods, rpc.MethodOf(form, func(_ context.Context, in *Args) (*Result, error) { return &Result{in.Text}, nil }))
	}
	for _, m := range methods {
		m.Inline = true
		srv.Handle(Method, m)
	}
}

// Body is a call's argument, and where its answer goes. It is used for one call at a time.
type Body struct {
	In, Out any
	Text    func() string // of the answer
}

// JSON is the body in JSON.
type JSON struct {
	Text string `json:"text"`
}

// form is a form of bodies by its name.
type form struct {
	form rpc.Form
	body func(text string) Body
}

var forms = map[string]form{
	"json": {rpc.JSON, func(text string) Body {
		out := new(JSON)
		return Body{&JSON{text}, out, func() string { return out.Text }}
	}},
	"raw": {rpc.Raw, func(text string) Body {
		out := new([]byte)
		return Body{[]byte(text), out, func() string { return string(*out) }}
	}},
	"protobuf": {protobuf.Form, func(text string) Body {
		out := new(wrapperspb.StringValue)
		return Body{&wrapperspb.StringValue{Value: text}, out, out.GetValue}
	}},
	"thrift":         {thrift.Binary, thriftBody},
	"thrift-compact": {thrift.Compact, thriftBody},
}

func thriftBody(text string) Body {
	out := new(Result)
	return Body{&Args{text}, out, func() string { return out.Success }}
}

// Names returns the names of the forms, sorted, as a text.
func Names() string {
	names := make([]string, 0, len(forms))
	for name := range forms {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Form returns the form with a name, and what makes bodies in it.
func Form(name string) (rpc.Form, func(text string) Body, error) {
	f, ok := forms[name]
	if !ok {
		return nil, nil, fmt.Errorf("%q is no form of bodies: %s", name, Names())
	}
	return f.form, f.body, nil
}
