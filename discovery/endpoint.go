package discovery

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Endpoint is where a server of a service listens, and what callers may choose it by. The JSON form is that in which registries hold it.
type Endpoint struct {
	// Address is where the server listens: HOST:PORT, or the path of a Unix socket after "unix:". It is the identity of the endpoint: a set has
	// each address once.
	Address string `json:"address"`
	// Weight is the share of the calls that the server should get, beside the weights of the others: 1 to 1,000,000. Zero counts as 100.
	Weight int `json:"weight,omitempty"`
	// Zone is where the server is, such as a data center. Callers may prefer their own.
	Zone string `json:"zone,omitempty"`
	// Labels are whatever else the server says of itself. They must not be changed while a set that has them is in use.
	Labels map[string]string `json:"labels,omitempty"`
}

// Limits of endpoints.
const (
	DefaultWeight = 100
	MaxWeight     = 1_000_000
	// MaxBytes is how long the JSON form of an endpoint may be.
	MaxBytes = 64 << 10
)

// ErrEndpoint says that an endpoint is not valid.
var ErrEndpoint = errors.New("discovery: bad endpoint")

// Share returns the weight, or that which zero stands for.
func (e *Endpoint) Share() int {
	if e.Weight == 0 {
		return DefaultWeight
	}
	return e.Weight
}

// Equal reports whether two endpoints are the same in every field.
func (e *Endpoint) Equal(other *Endpoint) bool {
	return e.Address == other.Address && e.Share() == other.Share() && e.Zone == other.Zone && maps.Equal(e.Labels, other.Labels)
}

// Network returns the network and the address for [net.Dial]: "tcp", or "unix" for the path of a socket.
func (e *Endpoint) Network() (network, address string) {
	if path, ok := strings.CutPrefix(e.Address, "unix:"); ok {
		return "unix", path
	}
	return "tcp", e.Address
}

// Check returns an error, which wraps [ErrEndpoint], if a field has a value that it cannot have.
func (e *Endpoint) Check() error {
	if e.Weight < 0 || e.Weight > MaxWeight {
		return fmt.Errorf("%w %q: weight %d is not between 1 and %d", ErrEndpoint, e.Address, e.Weight, MaxWeight)
	}
	if network, path := e.Network(); network == "unix" {
		if path == "" {
			return fmt.Errorf("%w %q: the path of the socket is missing", ErrEndpoint, e.Address)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(e.Address)
	if err != nil {
		return fmt.Errorf("%w %q: not HOST:PORT: %w", ErrEndpoint, e.Address, err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); host == "" || err != nil || n == 0 {
		return fmt.Errorf("%w %q: not HOST:PORT with a port between 1 and 65535", ErrEndpoint, e.Address)
	}
	return nil
}

// Encode returns the JSON form of an endpoint. The errors are those of [Endpoint.Check], and one for an endpoint of more than [MaxBytes].
func Encode(e *Endpoint) ([]byte, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(e)
	if err == nil && len(text) > MaxBytes {
		err = fmt.Errorf("%w %q: %d bytes of JSON, more than %d", ErrEndpoint, e.Address, len(text), MaxBytes)
	}
	return text, err
}

// Decode returns the endpoint that a registry holds: its JSON form, or only the address, as other programs may have put it. Fields that are not
// known are passed over. The errors wrap [ErrEndpoint].
func Decode(text []byte) (Endpoint, error) {
	var e Endpoint
	switch {
	case len(text) > MaxBytes:
		return e, fmt.Errorf("%w: %d bytes, more than %d", ErrEndpoint, len(text), MaxBytes)
	case len(text) > 0 && text[0] == '{':
		if err := json.Unmarshal(text, &e); err != nil {
			return Endpoint{}, fmt.Errorf("%w: %w", ErrEndpoint, err)
		}
	default:
		e.Address = string(text)
	}
	if err := e.Check(); err != nil {
		return Endpoint{}, err
	}
	return e, nil
}

// Normalize sorts endpoints by address, in place, and leaves out those that are not valid and those whose address another has already. Of two with
// one address the first counts. It returns the rest and the errors of [Endpoint.Check].
func Normalize(set []Endpoint) ([]Endpoint, error) {
	var errs []error
	set = slices.DeleteFunc(set, func(e Endpoint) bool {
		err := e.Check()
		if err != nil {
			errs = append(errs, err)
		}
		return err != nil
	})
	slices.SortStableFunc(set, func(a, b Endpoint) int { return cmp.Compare(a.Address, b.Address) })
	set = slices.CompactFunc(set, func(a, b Endpoint) bool { return a.Address == b.Address })
	return set, errors.Join(errs...)
}

// Same reports whether two sets are equal, both as [Normalize] returns them.
func Same(a, b []Endpoint) bool {
	return slices.EqualFunc(a, b, func(x, y Endpoint) bool { return x.Equal(&y) })
}
