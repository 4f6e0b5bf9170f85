package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-push/sluice/push"
)

// remoteFlags say which node a command talks to, and with which key.
type remoteFlags struct {
	URL    string `default:"http://127.0.0.1:8000" env:"SLUICE_URL" help:"The node's public address."`
	APIKey string `env:"SLUICE_API_KEY" help:"Key of the HTTP API; prefer the environment variable to the command line."`
}

// remote calls the HTTP API of a node. It may be used concurrently.
type remote struct {
	base   string
	key    string
	client *http.Client
}

// newRemote returns a remote that keeps up to conns connections open.
func newRemote(f remoteFlags, conns int) *remote {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = conns
	return &remote{
		base:   strings.TrimRight(f.URL, "/"),
		key:    f.APIKey,
		client: &http.Client{Transport: t, Timeout: 30 * time.Second},
	}
}

func (r *remote) close() { r.client.CloseIdleConnections() }

// unansweredError says that a node gave no answer of the API to a request, so that the caller does not know whether the node has carried it out.
type unansweredError struct {
	error
	reached bool // a server accepted the connection
}

func (e unansweredError) Unwrap() error { return e.error }

// call calls a method of the API; result may be nil. An error of the API is a *push.Error.
func (r *remote) call(ctx context.Context, method string, request, result any) error {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // escaped, data with many < would be six times as large and exceed the limit
	if err := e.Encode(request); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base+"/api/"+method, &body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if r.key != "" {
		req.Header.Set("X-API-Key", r.key)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return unansweredError{error: fmt.Errorf("%s does not answer: %w; check that a node is running there", r.base, unwrapURL(err))}
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return unansweredError{err, true}
	}
	var reply struct {
		Error *struct {
			Code    uint32 `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		err := fmt.Errorf("%s answered %s, but not as a Sluice node does: check the URL", r.base, resp.Status)
		if resp.StatusCode >= http.StatusInternalServerError { // a node that is not ready yet, or a proxy that cannot reach its node
			err = unansweredError{err, true}
		}
		return err
	}
	switch {
	case reply.Error != nil:
		return &push.Error{
			Code: reply.Error.Code, Message: reply.Error.Message,
			Temporary: reply.Error.Code == push.ErrTooManyRequests.Code || reply.Error.Code == push.ErrInternal.Code,
		}
	case result != nil:
		return json.Unmarshal(reply.Result, result)
	}
	return nil
}

// unwrapURL removes the method and address from an error of net/http, because the caller's message names the address already.
func unwrapURL(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

// publishRequest is the body of the method publish.
type publishRequest struct {
	Channel        string            `json:"channel"`
	Data           json.RawMessage   `json:"data,omitempty"`
	Key            string            `json:"key,omitempty"`
	Removed        bool              `json:"removed,omitempty"`
	Tags           map[string]string `json:"tags,omitempty"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
}
