#!/usr/bin/env bash
# A client of a node with curl and a shell: it publishes to a channel by the HTTP API, and listens to the channel over each transport of HTTP.
#
#	client.sh URL CHANNEL [API-KEY]
#
# It needs a node whose namespace lets anybody subscribe, such as that of `sluice serve --demo`.
set -euo pipefail
url=${1:?usage: client.sh URL CHANNEL [API-KEY]} channel=${2:?} key=${3:-}
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$work"' EXIT

# publish DATA publishes JSON and prints its place in the channel.
publish() {
	curl -sS --fail-with-body ${key:+-H "X-API-Key: $key"} -d "{\"channel\": \"$channel\", \"data\": $1}" "$url/api/publish"
}

# begin NAME CURL-ARGUMENTS… opens a stream in the background; its lines go to a file of that name.
begin() {
	curl -sSN --fail-with-body -m 60 "${@:2}" > "$work/$1" &
}

# await NAME TEXT waits for text in a stream.
await() {
	for _ in $(seq 300); do
		if grep -qF "$2" "$work/$1"; then return; fi
		sleep 0.1
	done
	echo "client.sh: $1 did not say $2 but: $(cat "$work/$1")" >&2
	exit 1
}

# send NAME COMMAND passes a command, as JSON, to the session of a stream. Any node of a cluster takes it.
send() {
	field() { grep -o "\"$1\":\"[^\"]*\"" "$work/$2" | head -n 1; }
	local data=${2//\"/\\\"}
	curl -sS --fail-with-body -d "{$(field session "$1"), $(field node "$1"), \"data\": \"$data\"}" "$url/emulation"
}

# Clients that only listen: one request names the channels.
ask="{\"subs\": {\"$channel\": {}}}"
begin uni_http_stream -d "$ask" "$url/connection/uni_http_stream"
begin uni_sse --get --data-urlencode "cf_connect=$ask" -H 'Accept: text/event-stream' "$url/connection/uni_sse"

# Clients that send commands: the first one opens the stream, more go to /emulation.
connect='{"id":1,"connect":{}}'
begin http_stream -d "$connect" "$url/connection/http_stream"
begin sse --get --data-urlencode "cf_connect=$connect" -H 'Accept: text/event-stream' "$url/connection/sse"
for name in http_stream sse; do
	await "$name" '"session"'
	send "$name" "{\"id\":2,\"subscribe\":{\"channel\":\"$channel\"}}"
	await "$name" '"subscribe"'
done

# What is published now, all four get.
for name in uni_http_stream uni_sse; do await "$name" '"connect"'; done
text="hello from $$"
publish "{\"text\": \"$text\"}"
echo
for name in uni_http_stream uni_sse http_stream sse; do
	await "$name" "$text"
	printf '%-15s %s\n' "$name" "$(grep -F "$text" "$work/$name")"
done
