package echo

import (
	"context"
	"errors"

	apache "github.com/apache/thrift/lib/go/thrift"
)

// Args and Result are the structs that Thrift's compiler makes of the method, in fewer words.
type (
	Args   struct{ Text string }
	Result struct{ Success string }
)

// Write implements TStruct.
func (a *Args) Write(ctx context.Context, p apache.TProtocol) error { return write(ctx, p, 1, a.Text) }

// Read implements TStruct.
func (a *Args) Read(ctx context.Context, p apache.TProtocol) error { return read(ctx, p, 1, &a.Text) }

// Write implements TStruct.
func (r *Result) Write(ctx context.Context, p apache.TProtocol) error {
	return write(ctx, p, 0, r.Success)
}

// Read implements TStruct.
func (r *Result) Read(ctx context.Context, p apache.TProtocol) error {
	return read(ctx, p, 0, &r.Success)
}

// write writes a struct with one field, a string.
func write(ctx context.Context, p apache.TProtocol, id int16, value string) error {
	return errors.Join(p.WriteStructBegin(ctx, "echo"), p.WriteFieldBegin(ctx, "text", apache.STRING, id), p.WriteString(ctx, value),
		p.WriteFieldEnd(ctx), p.WriteFieldStop(ctx), p.WriteStructEnd(ctx))
}

// read reads a struct, and sets value from the field with an id. Other fields are passed over.
func read(ctx context.Context, p apache.TProtocol, id int16, value *string) error {
	if _, err := p.ReadStructBegin(ctx); err != nil {
		return err
	}
	for {
		_, kind, got, err := p.ReadFieldBegin(ctx)
		switch {
		case err != nil:
			return err
		case kind == apache.STOP:
			return p.ReadStructEnd(ctx)
		case got == id && kind == apache.STRING:
			*value, err = p.ReadString(ctx)
		default:
			err = p.Skip(ctx, kind)
		}
		if err != nil {
			return err
		}
	}
}
