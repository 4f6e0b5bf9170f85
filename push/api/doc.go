// Package api is the HTTP API through which a back end publishes and looks after channels and clients.
//
// Every method is POST /api/METHOD with a JSON body and answers {"result": …} or {"error": {"code": …, "message": …}}, with the method
// names and shapes that Centrifugo published (https://centrifugal.dev/docs/server/server_api), so that libraries made for that API work
// for the methods below; others, such as batch, subscribe and refresh, are answered with status 404. Members that would change what a request
// means and are not available (skip_history, version, version_epoch, session) are refused. Additions of ours: key and removed of publish and
// broadcast, for tables, and pace.
//
//	publish         {channel, data or b64data, key, removed, tags, idempotency_key} → {offset, epoch}
//	broadcast       {channels, …as publish}                                     → {responses: [{result} or {error}, …]}
//	history         {channel, limit, since: {offset, epoch}, reverse}           → {publications, offset, epoch}
//	presence        {channel}                                                   → {presence: {CLIENT: {client, user, …}}}, 10,000 at most, or error 106
//	presence_stats  {channel}                                                   → {num_clients, num_users}
//	channels        {pattern}                                                   → {channels: {CHANNEL: {num_clients}}}
//	info            {}                                                          → {nodes: […]}
//	disconnect      {user, client, code, reason, whitelist}                     → {}
//	unsubscribe     {channel, user, client}                                     → {}
//	pace            {user, client, channel, interval, bandwidth}                → {}
//
// The status is 200 whenever the request was understood, also for an error; 400 for a body that is not what the method takes, 401
// without a known key, 403 with a key that lacks the scope, 404 for an unknown method, 405 for anything but POST, 413 for a body that
// is too large, 415 for a compression other than gzip. Text has to be UTF-8, without halves of surrogate pairs, and values nested 128 levels
// deep at most; names of members are exact. A history since offset 0 of no epoch begins with the oldest that there is; one from a position that is
// not kept any more, in either direction, is error 112. An idempotency key is one of its channel, in a table too: whatever row is published with it
// again within five minutes is answered the position of the first. A caller proves who it is with the header X-API-Key, or Authorization: apikey KEY.
package api
