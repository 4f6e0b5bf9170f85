package wire

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/rpc"
)

// The codes of errors that callers branch on. Package rpc has others.
const (
	CodeUnknownNamespace rpc.Code = 4101
	CodeBusy             rpc.Code = 4102
	CodeTooLarge         rpc.Code = 4103
	CodeDenied           rpc.Code = 4104 // the secret is wrong
	CodeVersion          rpc.Code = 4105 // the hub speaks none of the gateway's versions, or belongs to another cluster
	CodeNoStream         rpc.Code = 4106 // there is no Follow stream with the ID, perhaps not any more
	CodeAway             rpc.Code = 4107 // the hub has no connection to its broker; the call had no effect
)

// ErrDenied means that the hub does not accept the secret.
var ErrDenied = errors.New("link: the hub does not accept this secret")

// ErrAway means that the hub has no connection to its broker. The gateway asks another hub.
var ErrAway = errors.New("link: the hub has no connection to its broker")

var errorCodes = []struct {
	err  error
	code rpc.Code
}{
	{broker.ErrUnknownNamespace, CodeUnknownNamespace},
	{broker.ErrBusy, CodeBusy},
	{broker.ErrTooLarge, CodeTooLarge},
	{ErrDenied, CodeDenied},
	{ErrAway, CodeAway},
	{ErrLayout, rpc.BadMessage},
}

// AnswerError returns the error with which a hub answers.
func AnswerError(err error) error {
	for _, e := range errorCodes {
		if errors.Is(err, e.err) {
			return rpc.Errorf(e.code, "%w", err)
		}
	}
	return err
}

// CallError returns what the error of a call means to the gateway: an error of package broker, ErrDenied, the error of ctx, or another one. A hub that is
// closed is no closed broker: then it is unknown whether the operation took effect.
func CallError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if rpc.Refused(err) {
		return fmt.Errorf("%w: %w", broker.ErrBusy, err)
	}
	switch code := rpc.CodeOf(err); code {
	case CodeUnknownNamespace, CodeBusy, CodeTooLarge, CodeDenied:
		for _, e := range errorCodes {
			if e.code == code {
				return fmt.Errorf("%w: %w", e.err, err)
			}
		}
	case rpc.TooLarge:
		return fmt.Errorf("%w: %w", broker.ErrTooLarge, err)
	case rpc.Canceled: // by the hub, and not by the caller
		return fmt.Errorf("link: the hub has given up: %v", err) //nolint:errorlint // it is not context.Canceled
	}
	return err
}
