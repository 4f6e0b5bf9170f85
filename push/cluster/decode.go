package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Encode returns the JSON form of a member, of at most [MaxMemberBytes]. The errors wrap [ErrMember].
func Encode(m *Member) ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return nil, fmt.Errorf("%w %q: %w", ErrMember, m.ID, err)
	}
	text := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if len(text) > MaxMemberBytes {
		return nil, fmt.Errorf("%w %q: %d bytes of JSON, more than %d", ErrMember, shortened(m.ID), len(text), MaxMemberBytes)
	}
	return text, nil
}

// Decode returns the member that a lease or a registry holds in its JSON form. Text of more than [MaxMemberBytes], fields that come twice, fields of
// another type and values that [Member.Check] refuses are errors, which wrap [ErrMember]. Unknown fields are passed over, so that nodes of two
// releases understand each other.
func Decode(text []byte) (Member, error) {
	var m Member
	if len(text) > MaxMemberBytes {
		return m, fmt.Errorf("%w: %d bytes of JSON, more than %d", ErrMember, len(text), MaxMemberBytes)
	}
	if err := decodeObject(text, m.setField); err != nil {
		return Member{}, fmt.Errorf("%w: %w", ErrMember, err)
	}
	if err := m.Check(); err != nil {
		return Member{}, err
	}
	return m, nil
}

// setField sets the field with a name in JSON, if it is known.
func (m *Member) setField(name string, value json.RawMessage) error {
	switch name {
	case "id":
		return decodeInto(&m.ID, name, value, "a string")
	case "cluster":
		return decodeInto(&m.Cluster, name, value, "a string")
	case "role":
		var text string
		if err := decodeInto(&text, name, value, "a string"); err != nil {
			return err
		}
		return m.Role.UnmarshalText([]byte(text))
	case "public":
		return decodeInto(&m.Public, name, value, "a string")
	case "link":
		return decodeInto(&m.Link, name, value, "a string")
	case "labels":
		m.Labels = make(map[string]string)
		return decodeObject(value, func(label string, value json.RawMessage) error {
			if len(m.Labels) == MaxLabels {
				return fmt.Errorf("labels: more than %d", MaxLabels)
			}
			var text string
			err := decodeInto(&text, "label "+label, value, "a string")
			m.Labels[label] = text
			return err
		})
	case "weight":
		return decodeInto(&m.Weight, name, value, "a whole number")
	case "sessions":
		return decodeInto(&m.Sessions, name, value, "a whole number")
	case "capacity":
		return decodeInto(&m.Capacity, name, value, "a whole number")
	case "version":
		return decodeInto(&m.Version, name, value, "a string")
	case "draining":
		return decodeInto(&m.Draining, name, value, "true or false")
	}
	return nil
}

// decodeInto decodes the value of a field, which has to be of one type.
func decodeInto(to any, name string, value json.RawMessage, kind string) error {
	if err := json.Unmarshal(value, to); err != nil || string(value) == "null" {
		return fmt.Errorf("%s: %s is not %s", shortened(name), shortened(string(value)), kind)
	}
	return nil
}

// decodeObject calls a function for each field of a JSON object. Unlike package json it is not content with fields that come twice, with names in
// other letters and with text that is not UTF-8.
func decodeObject(text []byte, field func(name string, value json.RawMessage) error) error {
	if !utf8.Valid(text) {
		return errors.New("not UTF-8")
	}
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if first, err := decoder.Token(); err != nil || first != json.Delim('{') {
		return fmt.Errorf("%s is not an object", shortened(string(bytes.TrimSpace(text))))
	}
	seen := make(map[string]bool)
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("%s: comes twice", shortened(name))
		}
		seen[name] = true
		if err := field(name, value); err != nil {
			return err
		}
	}
	return nil
}
