package main

import (
	"context"

	apache "github.com/apache/thrift/lib/go/thrift"
)

// data is the struct of the arguments of Echo, and of its result: one field of bytes.
type data struct {
	id    int16
	bytes []byte
}

// Write implements TStruct.
func (d *data) Write(ctx context.Context, p apache.TProtocol) error {
	if err := p.WriteStructBegin(ctx, "data"); err != nil {
		return err
	}
	if err := p.WriteFieldBegin(ctx, "bytes", apache.STRING, d.id); err != nil {
		return err
	}
	if err := p.WriteBinary(ctx, d.bytes); err != nil {
		return err
	}
	if err := p.WriteFieldEnd(ctx); err != nil {
		return err
	}
	if err := p.WriteFieldStop(ctx); err != nil {
		return err
	}
	return p.WriteStructEnd(ctx)
}

// Read implements TStruct.
func (d *data) Read(ctx context.Context, p apache.TProtocol) error {
	if _, err := p.ReadStructBegin(ctx); err != nil {
		return err
	}
	for {
		_, kind, id, err := p.ReadFieldBegin(ctx)
		switch {
		case err != nil:
			return err
		case kind == apache.STOP:
			return p.ReadStructEnd(ctx)
		case id == d.id && kind == apache.STRING:
			d.bytes, err = p.ReadBinary(ctx)
		default:
			err = p.Skip(ctx, kind)
		}
		if err != nil {
			return err
		}
	}
}

// processor answers Echo as generated code does. There is no other method.
type processor struct{}

// Process implements TProcessor.
func (processor) Process(ctx context.Context, in, out apache.TProtocol) (bool, apache.TException) {
	name, _, sequence, err := in.ReadMessageBegin(ctx)
	if err != nil {
		return false, apache.WrapTException(err)
	}
	d := data{id: 1}
	if err = d.Read(ctx, in); err == nil {
		err = in.ReadMessageEnd(ctx)
	}
	if err == nil {
		err = out.WriteMessageBegin(ctx, name, apache.REPLY, sequence)
	}
	if err == nil {
		d.id = 0
		err = d.Write(ctx, out)
	}
	if err == nil {
		err = out.WriteMessageEnd(ctx)
	}
	if err == nil {
		err = out.Flush(ctx)
	}
	return err == nil, apache.WrapTException(err)
}

// ProcessorMap implements TProcessor.
func (processor) ProcessorMap() map[string]apache.TProcessorFunction { return nil }

// AddToProcessorMap implements TProcessor.
func (processor) AddToProcessorMap(string, apache.TProcessorFunction) {}
