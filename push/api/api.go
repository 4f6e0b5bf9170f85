package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/internal/codecount"
)

// Prefix is the path under which the API is served.
const Prefix = "/api/"

// Scope is a permission of a key.
type Scope string

// The scopes. New assigns each method to one.
const (
	ScopePublish Scope = "publish" // publish, broadcast, history_remove
	ScopeRead    Scope = "read"    // history, presence, presence_stats, channels, info
	ScopeControl Scope = "control" // disconnect, unsubscribe, pace, and what revokes tokens
)

// Options are the API's settings. Zero means the default and negative means off, unless a field says otherwise.
type Options struct {
	// Authorize returns what a key may do. It has to compare in constant time. If it is nil, every caller is admitted: for processes that
	// deliberately run without authentication.
	Authorize func(key string, s Scope) Grant
	// Allow reports whether the API may perform an action in a channel's namespace; nil allows everything. It is called only for channels whose
	// namespace exists.
	Allow func(channel string, a Action) bool
	// Revocations takes tokens of clients back; nil: there are no tokens.
	Revocations Revocations
	// MaxBody is the largest body of a request, in bytes; never off. Default 1 MiB, plus the base64 length of MaxData.
	MaxBody int64
	// MaxData is the largest data of one publication, in bytes. By default there is no bound besides MaxBody.
	MaxData int
	// Exceeded is called when data is larger than MaxData, and reports whether it is refused; nil: it is. It is called concurrently.
	Exceeded func() bool
	// Timeout bounds one request, from the beginning of its body; default 10 s, never off.
	Timeout time.Duration
	// Observe is called with the duration of each request, from the end of its head to the end of its answer, and with the method as Stats names
	// it. It is called concurrently and must not block. nil is not called.
	Observe func(method string, took time.Duration)
	// Logger logs errors of the server; nil discards them.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.MaxBody <= 0 {
		out.MaxBody = 1<<20 + int64(base64.StdEncoding.EncodedLen(max(out.MaxData, 0)))
	}
	if out.Exceeded == nil {
		out.Exceeded = func() bool { return true }
	}
	if out.Timeout <= 0 {
		out.Timeout = 10 * time.Second
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}

// Grant is what a key may do.
type Grant struct {
	Known   bool
	Allowed bool // the key has the scope of the method
	// Namespace reports whether the key may use the channels of a namespace. Such a key may only call methods for channels. If it is nil, the key is
	// for all namespaces, and all methods of its scopes.
	Namespace func(name string) bool
}

// Action is something that a namespace may forbid to the API.
type Action uint8

// The actions.
const (
	Publish Action = iota
	History
	Presence
)

// Handler serves the API. It is safe for concurrent use.
type Handler struct {
	hub      *hub.Hub
	options  Options
	methods  map[string]method
	outcomes map[string]*codecount.Codes // by method
}

type method struct {
	scope Scope
	call  func(ctx context.Context, body []byte) (any, error)
}

// New returns a handler for requests whose path begins with [Prefix].
func New(h *hub.Hub, o *Options) *Handler {
	a := &Handler{hub: h, options: o.withDefaults(), outcomes: map[string]*codecount.Codes{}}
	a.methods = map[string]method{
		"publish":        {ScopePublish, typed(a.publish)},
		"broadcast":      {ScopePublish, typed(a.broadcast)},
		"history":        {ScopeRead, typed(a.history)},
		"history_remove": {ScopePublish, typed(a.historyRemove)},
		"presence":       {ScopeRead, typed(a.presence)},
		"presence_stats": {ScopeRead, typed(a.presenceStats)},
		"channels":       {ScopeRead, typed(a.channels)},
		"info":           {ScopeRead, everywhere(a.info)},
		"disconnect":     {ScopeControl, everywhere(a.disconnect)},
		"unsubscribe":    {ScopeControl, typed(a.unsubscribe)},
		"pace":           {ScopeControl, typed(a.pace)},

		"revoke_token":           {ScopeControl, everywhere(a.revokeToken)},
		"invalidate_user_tokens": {ScopeControl, everywhere(a.invalidateUserTokens)},
		"block_user":             {ScopeControl, everywhere(a.blockUser)},
		"unblock_user":           {ScopeControl, everywhere(a.unblockUser)},
	}
	known := append(push.ErrorCodes(), 0)
	a.outcomes[UnknownMethod] = codecount.Of(known...)
	for name := range a.methods {
		a.outcomes[name] = codecount.Of(known...)
	}
	return a
}

// typed adapts a function that takes a decoded request.
func typed[T any](f func(context.Context, *T) (any, error)) func(context.Context, []byte) (any, error) {
	return func(ctx context.Context, body []byte) (any, error) {
		var r T
		if err := decode(body, &r); err != nil {
			return nil, err
		}
		return f(ctx, &r)
	}
}

// everywhere is typed for a method that is not for a channel: only keys for all namespaces may call it.
func everywhere[T any](f func(context.Context, *T) (any, error)) func(context.Context, []byte) (any, error) {
	return typed(func(ctx context.Context, r *T) (any, error) {
		if err := checkEverywhere(ctx); err != nil {
			return nil, err
		}
		return f(ctx, r)
	})
}

// reply is the body of every answer.
type reply struct {
	Error  *wireError `json:"error,omitempty"`
	Result any        `json:"result,omitempty"`
}

type wireError struct {
	Code    uint32 `json:"code"`
	Message string `json:"message"`
}

// ServeHTTP implements http.Handler.
func (a *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	name := strings.TrimPrefix(r.URL.Path, Prefix)
	code := a.serve(w, r, name)
	if a.outcomes[name] == nil {
		name = UnknownMethod
	}
	a.outcomes[name].Add(code)
	if observe := a.options.Observe; observe != nil {
		observe(name, time.Since(began))
	}
}

// serve answers a request for a method, and returns the code of the error, 0 if there is none.
func (a *Handler) serve(w http.ResponseWriter, r *http.Request, name string) (code uint32) {
	m, ok := a.methods[name]
	switch {
	case !ok:
		return a.refuse(w, http.StatusNotFound, push.ErrMethodNotFound.WithMessage("no method %q: use publish, broadcast, history, presence, "+
			"presence_stats, channels, info, disconnect, unsubscribe or pace", name))
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		return a.refuse(w, http.StatusMethodNotAllowed, push.ErrBadRequest.WithMessage("use POST"))
	}
	grant, status, e := a.authorize(r, m.scope)
	if e != nil {
		return a.refuse(w, status, e)
	}
	body, status, e := a.body(w, r)
	if e != nil {
		return a.refuse(w, status, e)
	}
	ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), grantKey{}, grant), a.options.Timeout)
	defer cancel()
	result, err := m.call(ctx, body)
	if bad := new(malformed); errors.As(err, &bad) {
		return a.refuse(w, http.StatusBadRequest, push.ErrBadRequest.WithMessage("the body is not a valid %s request: %v", name, bad))
	}
	return a.write(w, http.StatusOK, a.answer(result, err))
}

// authorize returns what the caller's key may do, and the error for a caller whose key lacks the scope.
func (a *Handler) authorize(r *http.Request, s Scope) (g Grant, status int, e *push.Error) {
	if a.options.Authorize == nil {
		return g, 0, nil
	}
	switch g = a.options.Authorize(apiKey(r), s); {
	case !g.Known:
		return g, http.StatusUnauthorized, push.ErrUnauthorized.WithMessage("API key missing or unknown: send a valid key in the header X-API-Key")
	case !g.Allowed:
		return g, http.StatusForbidden, push.ErrPermissionDenied.WithMessage("the API key lacks the scope %q", s)
	}
	return g, 0, nil
}

// grantKey is the key of the caller's Grant in a context.
type grantKey struct{}

// mayUse reports whether the caller's key is for the namespace of a channel.
func mayUse(ctx context.Context, channel string) bool {
	g, _ := ctx.Value(grantKey{}).(Grant)
	return g.Namespace == nil || g.Namespace(push.Namespace(channel))
}

// checkNamespace returns the error for a caller whose key is not for the namespace of a channel.
func checkNamespace(ctx context.Context, channel string) error {
	if !mayUse(ctx, channel) {
		return push.ErrPermissionDenied.WithMessage("the API key is not for namespace %q", push.Namespace(channel))
	}
	return nil
}

// checkEverywhere returns the error for a caller whose key is only for some namespaces.
func checkEverywhere(ctx context.Context) error {
	if g, _ := ctx.Value(grantKey{}).(Grant); g.Namespace != nil {
		return push.ErrPermissionDenied.WithMessage("the API key is only for some namespaces, and the request is not for a channel")
	}
	return nil
}

// body reads a request's body within the bounds of size and time. If that fails, it returns the error for the caller.
func (a *Handler) body(w http.ResponseWriter, r *http.Request) (body []byte, status int, e *push.Error) {
	in := http.NewResponseController(w)
	var err error
	_ = in.SetReadDeadline(time.Now().Add(a.options.Timeout)) // if it is not supported, the server's own deadlines apply
	bounded := http.MaxBytesReader(w, r.Body, a.options.MaxBody)
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		body, err = io.ReadAll(bounded)
	case "gzip":
		body, err = a.unzip(bounded)
	default:
		return nil, http.StatusUnsupportedMediaType, push.ErrBadRequest.WithMessage("the encoding %q is not supported: use gzip or none", encoding)
	}
	if err == nil {
		_ = in.SetReadDeadline(time.Time{}) // net/http goes on reading only to notice that the caller has closed the connection
	}
	tooLarge := new(http.MaxBytesError)
	switch {
	case errors.As(err, &tooLarge):
		return nil, http.StatusRequestEntityTooLarge, push.ErrBadRequest.WithMessage("the body exceeds %d bytes", tooLarge.Limit)
	case err != nil:
		return nil, http.StatusBadRequest, push.ErrBadRequest.WithMessage("reading the body failed: %v", err)
	}
	return body, 0, nil
}

// unzip decompresses a body, up to MaxBody bytes.
func (a *Handler) unzip(in io.Reader) ([]byte, error) {
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	out, err := io.ReadAll(io.LimitReader(z, a.options.MaxBody+1))
	if err == nil && int64(len(out)) > a.options.MaxBody {
		return nil, &http.MaxBytesError{Limit: a.options.MaxBody}
	}
	return out, err
}

// apiKey returns the key that a request carries.
func apiKey(r *http.Request) string {
	if key := r.Header.Get("X-API-Key"); key != "" {
		return key
	}
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "apikey") {
		return strings.TrimSpace(key)
	}
	return ""
}

func (a *Handler) answer(result any, err error) reply {
	if err == nil {
		return reply{Result: result}
	}
	var known *push.Error
	if !errors.As(err, &known) {
		a.options.Logger.Error("API request failed", "error", err)
		known = push.ErrInternal
	}
	return reply{Error: &wireError{known.Code, known.Message}}
}

func (a *Handler) refuse(w http.ResponseWriter, status int, e *push.Error) (code uint32) {
	return a.write(w, status, reply{Error: &wireError{e.Code, e.Message}})
}

// write sends a reply and returns the code of its error, 0 if there is none.
func (a *Handler) write(w http.ResponseWriter, status int, r reply) (code uint32) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // data stays as it was published
	if err := encoder.Encode(r); err != nil {
		a.options.Logger.Error("response encoding failed", "error", err) // data that is not JSON was published by another program
		text.Reset()
		r = reply{Error: &wireError{push.ErrInternal.Code, push.ErrInternal.Message}}
		_ = encoder.Encode(r) // cannot fail: a number and a string
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // fails only if the caller has closed the connection
	if r.Error == nil {
		return 0
	}
	return r.Error.Code
}
