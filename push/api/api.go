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

	"github.com/sluice-push/sluice/internal/count"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/hub"
)

// Prefix is the path under which the API lives.
const Prefix = "/api/"

// Scope is what a key is good for.
type Scope string

// The scopes: what each method needs is in the table of methods.
const (
	ScopePublish Scope = "publish" // publish, broadcast
	ScopeRead    Scope = "read"    // history, presence, presence_stats, channels, info
	ScopeControl Scope = "control" // disconnect, unsubscribe, pace
)

// Options are the API's settings. Zero means the default, negative means off, unless a field says otherwise.
type Options struct {
	// Authorize reports whether a key is known and whether it has the scope. It compares in constant time. nil admits everybody:
	// for processes that run without authentication on purpose.
	Authorize func(key string, s Scope) (known, allowed bool)
	// Allow reports whether the API may do something in a channel's namespace; nil allows everything. It is asked only about
	// channels whose namespace exists.
	Allow func(channel string, a Action) bool
	// MaxBody bounds a request's body in bytes; never off. Default 1 MiB, and as much more as data of MaxData takes in base64.
	MaxBody int64
	// MaxData bounds the data of one publication in bytes; default no bound of its own.
	MaxData int
	// Timeout bounds one request, from its body on; default 10 s, never off.
	Timeout time.Duration
	// Observe is told how long each request took, from the end of its head to the end of its answer, by the method as Stats has it. It is
	// called concurrently and must not wait. nil is not called.
	Observe func(method string, took time.Duration)
	// Logger gets what goes wrong on our side; nil discards.
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
	if out.Timeout <= 0 {
		out.Timeout = 10 * time.Second
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}

// Action is something that namespaces allow to some.
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
	outcomes map[string]*count.Codes // by method
}

type method struct {
	scope Scope
	call  func(ctx context.Context, body []byte) (any, error)
}

// New returns a handler for requests whose path begins with [Prefix].
func New(h *hub.Hub, o *Options) *Handler {
	a := &Handler{hub: h, options: o.withDefaults(), outcomes: map[string]*count.Codes{}}
	a.methods = map[string]method{
		"publish":        {ScopePublish, typed(a.publish)},
		"broadcast":      {ScopePublish, typed(a.broadcast)},
		"history":        {ScopeRead, typed(a.history)},
		"history_remove": {ScopePublish, typed(a.historyRemove)},
		"presence":       {ScopeRead, typed(a.presence)},
		"presence_stats": {ScopeRead, typed(a.presenceStats)},
		"channels":       {ScopeRead, typed(a.channels)},
		"info":           {ScopeRead, typed(a.info)},
		"disconnect":     {ScopeControl, typed(a.disconnect)},
		"unsubscribe":    {ScopeControl, typed(a.unsubscribe)},
		"pace":           {ScopeControl, typed(a.pace)},
	}
	known := append(push.ErrorCodes(), 0)
	a.outcomes[UnknownMethod] = count.Of(known...)
	for name := range a.methods {
		a.outcomes[name] = count.Of(known...)
	}
	return a
}

// typed makes a method of a function that takes a decoded request.
func typed[T any](f func(context.Context, *T) (any, error)) func(context.Context, []byte) (any, error) {
	return func(ctx context.Context, body []byte) (any, error) {
		var r T
		if err := decode(body, &r); err != nil {
			return nil, err
		}
		return f(ctx, &r)
	}
}

// reply is what every request is answered with.
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

// serve answers a request for a method and returns the code of the error, 0 if there is none.
func (a *Handler) serve(w http.ResponseWriter, r *http.Request, name string) (code uint32) {
	m, ok := a.methods[name]
	switch {
	case !ok:
		return a.refuse(w, http.StatusNotFound, push.ErrMethodNotFound.WithMessage("no method %q: there are publish, broadcast, history, presence, "+
			"presence_stats, channels, info, disconnect, unsubscribe and pace", name))
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		return a.refuse(w, http.StatusMethodNotAllowed, push.ErrBadRequest.WithMessage("use POST"))
	}
	if status, e := a.authorize(r, m.scope); e != nil {
		return a.refuse(w, status, e)
	}
	body, status, e := a.body(w, r)
	if e != nil {
		return a.refuse(w, status, e)
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.options.Timeout)
	defer cancel()
	result, err := m.call(ctx, body)
	if bad := new(malformed); errors.As(err, &bad) {
		return a.refuse(w, http.StatusBadRequest, push.ErrBadRequest.WithMessage("the body is not what %s takes: %v", name, bad))
	}
	return a.write(w, http.StatusOK, a.answer(result, err))
}

// authorize returns how to refuse a caller, nil if the key has the scope.
func (a *Handler) authorize(r *http.Request, s Scope) (status int, e *push.Error) {
	if a.options.Authorize == nil {
		return 0, nil
	}
	switch known, allowed := a.options.Authorize(apiKey(r), s); {
	case !known:
		return http.StatusUnauthorized, push.ErrUnauthorized.WithMessage("send a known key in the header X-API-Key")
	case !allowed:
		return http.StatusForbidden, push.ErrPermissionDenied.WithMessage("the key lacks the scope %q", s)
	}
	return 0, nil
}

// body reads a request's body within the bounds of size and time, or returns how to refuse it.
func (a *Handler) body(w http.ResponseWriter, r *http.Request) (body []byte, status int, e *push.Error) {
	in := http.NewResponseController(w)
	var err error
	_ = in.SetReadDeadline(time.Now().Add(a.options.Timeout)) // where it is not supported the server's own deadlines have to do
	bounded := http.MaxBytesReader(w, r.Body, a.options.MaxBody)
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		body, err = io.ReadAll(bounded)
	case "gzip":
		body, err = a.unzip(bounded)
	default:
		return nil, http.StatusUnsupportedMediaType, push.ErrBadRequest.WithMessage("the encoding %q is not available: use gzip or none", encoding)
	}
	if err == nil {
		_ = in.SetReadDeadline(time.Time{}) // what is read from now on only tells that the caller hung up
	}
	tooLarge := new(http.MaxBytesError)
	switch {
	case errors.As(err, &tooLarge):
		return nil, http.StatusRequestEntityTooLarge, push.ErrBadRequest.WithMessage("the body has more than %d bytes", tooLarge.Limit)
	case err != nil:
		return nil, http.StatusBadRequest, push.ErrBadRequest.WithMessage("the body did not arrive: %v", err)
	}
	return body, 0, nil
}

// unzip reads a compressed body, of which no more comes out than a body may have.
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
		a.options.Logger.Error("api request failed", "error", err)
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
		a.options.Logger.Error("an answer cannot be encoded", "error", err) // data that is not JSON came in elsewhere
		text.Reset()
		r = reply{Error: &wireError{push.ErrInternal.Code, push.ErrInternal.Message}}
		_ = encoder.Encode(r) // two plain values
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // whoever hung up does not want the answer
	if r.Error == nil {
		return 0
	}
	return r.Error.Code
}
