package websocket

import (
	"bufio"
	"net/http"
)

// ParseUpgrade returns the request that an upgrade listener reads from text, nil if it leaves text to net/http.
func ParseUpgrade(text []byte) *http.Request {
	return (&upgradeListener{reader: bufio.NewReaderSize(nil, maxUpgradeRequest)}).parse(text)
}

// MaxUpgradeRequest is the size of the largest request that an upgrade listener reads.
const MaxUpgradeRequest = maxUpgradeRequest
