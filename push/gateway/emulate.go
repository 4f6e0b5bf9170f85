package gateway

import (
	stdjson "encoding/json"
	"errors"
	"mime"
	"net/http"

	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// EmulationPath is where clients send commands whose connection carries only what the server sends: a POST request with the session, its node
// and the commands, as SDKs do it.
const EmulationPath = "/emulation"

// decodeEmulation reads a body in JSON: {"node":…,"session":…,"data":"the commands, one a line"}. It is checked first: encoding/json replaces what
// is no text, bytes that are not UTF-8 and halves of surrogate pairs, and the client would publish other data than it sent.
func decodeEmulation(body []byte) (protocol.Batch, error) {
	if _, err := json.CompactData(body); err != nil {
		return protocol.Batch{}, err
	}
	var in struct {
		Node    string `json:"node"`
		Session string `json:"session"`
		Data    string `json:"data"`
	}
	err := stdjson.Unmarshal(body, &in)
	return protocol.Batch{Node: in.Node, Session: in.Session, Commands: []byte(in.Data)}, err
}

// emulationSlack is what the body of a request may have more than twice the bytes of its commands: in JSON these are a string, with escapes.
const emulationSlack = 1 << 10

// serveEmulation takes the commands of one request. SDKs connect again after 404, 500 and above; after others they give up the command.
func (g *Gateway) serveEmulation(w http.ResponseWriter, r *http.Request) {
	if !g.Allows(r) {
		g.OriginRefused(r)
		Refuse(w, r, http.StatusForbidden, NotThisOrigin)
		return
	}
	body, ok := g.ReadBody(w, r, 2*g.options.FrameBytes+emulationSlack)
	if !ok {
		return
	}
	decode := decodeEmulation
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "application/octet-stream" {
		decode = protobuf.DecodeEmulation
	}
	in, err := decode(body)
	if err == nil && (in.Node == "" || in.Session == "" || len(in.Commands) > g.options.FrameBytes) {
		err = errors.New("it has to have node and session of the connect reply, and commands of at most the bytes of a frame as data")
	}
	if err != nil {
		g.RequestRefused()
		Refuse(w, r, http.StatusBadRequest, "the body is refused: "+err.Error())
		return
	}
	switch err := g.Emulate(r.Context(), in.Node, in.Session, in.Commands); {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, ErrNoSession):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, ErrInboxFull):
		w.Header().Set("Retry-After", RetryAfter(MinRetry))
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	default:
		w.Header().Set("Retry-After", RetryAfter(MinRetry))
		http.Error(w, "the node of the session could not be reached", http.StatusServiceUnavailable)
	}
}
