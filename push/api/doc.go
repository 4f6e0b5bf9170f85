// Package api is the HTTP API through which a back end publishes and manages channels and clients.
//
// Every method is POST /api/METHOD with a JSON body, and is answered {"result": …} or {"error": {"code": …, "message": …}}. Method names and
// shapes are the ones that Centrifugo published (https://centrifugal.dev/docs/server/server_api), so libraries made for that API work for the
// methods below. Others, such as batch, subscribe and refresh, are answered with status 404. Members that would change the meaning of a request
// and are not available (skip_history, version, version_epoch, session) are refused. Sluice adds the members key and removed of publish and
// broadcast, for tables, code and reason of unsubscribe, and the method pace.
//
//	publish         {channel, data or b64data, key, removed, tags, idempotency_key} → {offset, epoch}
//	broadcast       {channels, …as publish}                                     → {responses: [{result} or {error}, …]}
//	history         {channel, limit, since: {offset, epoch}, reverse}           → {publications, offset, epoch}
//	history_remove  {channel}, a table or value                                 → {}
//	presence        {channel}                                                   → {presence: {CLIENT: {client, user, …}}}, 10,000 at most, or error 106
//	presence_stats  {channel}                                                   → {num_clients, num_users}
//	channels        {pattern}                                                   → {channels: {CHANNEL: {num_clients}}}
//	info            {}                                                          → {nodes: […]}
//	disconnect      {user, client, code, reason, whitelist}                     → {}
//	unsubscribe     {channel, user, client, code, reason}                       → {}
//	pace            {user, client, channel, interval, bandwidth}                → {}
//
// If the request was understood, the status is 200, also for an error. It is 400 for a body that the method does not accept, 401 without a known
// key, 403 with a key that lacks the scope, 404 for an unknown method, 405 for anything but POST, 413 for a body that is too large, 415 for a
// compression other than gzip. Text has to be UTF-8 without halves of surrogate pairs, values may be nested 128 levels deep, and names of
// members are case-sensitive. A history since offset 0 without an epoch begins with the oldest publication. A history from a position that is
// not stored any more, in either direction, is error 112. An idempotency key belongs to its channel, in a table too: if a row is published with
// it again within five minutes, whichever row it is, the answer is the position of the first. The caller sends its key in the header X-API-Key,
// or as Authorization: apikey KEY.
package api
