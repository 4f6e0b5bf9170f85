// Package nats is a broker on NATS JetStream: a server embedded in the process, which keeps its data in a folder and opens no socket
// unless it is told to, or an external server or cluster by URL. The code between is the same.
//
// # What is where
//
// Every partition of a namespace is one JetStream stream, named sluice_NAMESPACE_INDEX; its sequence numbers are the offsets. A
// durable namespace is kept in files, another one in memory. A publication is a message:
//
//	sluice.NAMESPACE.s.CHANNEL         stream mode; with several partitions s0, s1, … instead of s
//	sluice.NAMESPACE.t.CHANNEL.KEY     value and table mode, likewise: one message a row; the row of a value channel has the empty key
//	sluice.NAMESPACE.t.CHANNEL.%c      the last clear of a table
//
// CHANNEL is the whole name, namespace included. In names, the bytes that mean something to NATS or a file system (space, '.', '*',
// '>', '/', '\', '%' and control characters) are written as '%' and two hexadecimal digits; an empty name is a lone '%'. See
// [Subject].
//
// Headers: Sluice-Key (where the subject does not have the key), Sluice-Removed, Sluice-Cleared, Sluice-Tag-NAME, Sluice-Info, all
// escaped in the same way. Nats-Msg-Id is the channel, %00 and the idempotency key. A removal lives for as long as the history of its
// namespace says, by Nats-TTL. A program without Sluice may publish as well: a message to the subject of a channel, with any
// of these headers or none, is a publication; what it may contain is up to [Options.Check].
//
// # How it works
//
// Publishing asks for an acknowledgement and waits for it; how many may be under way is bounded by [Options.Window]. What the server
// refuses is [broker.ErrBusy]. While followers are attached here, publishers also wait for them: no channel gets more publications
// ahead of them than its history holds, so that what this process publishes is never evicted before it was delivered. (Of a table that is one publication a row.)
//
// A follower is one ordered, unfiltered push consumer on the partition's stream, made anew from the last offset when anything is
// missing: after a lost connection, a restart of the server, a silence. A channel is loaded by batches of direct gets, never by
// a consumer. In stream mode a jump in the sequence is a gap. In a table it is not, as long as no removal can have expired
// unseen: rows are replaced by newer ones, which are still to come.
//
// An epoch stands for: when the stream was created, the number of partitions, the generation of the stream, which changes when it is
// found to be shorter than it was, and for an embedded server the generation of the data folder, see below.
//
// # What an acknowledgement promises
//
// That the publication is in the store of the server, and survives the end of this process and of the server's, kill -9
// included. Whether it survives the end of the machine depends on [Options.Sync]: an embedded server writes to the disk at intervals, by
// default every two minutes, or before each acknowledgement. After the machine stopped without a clean end, the data may lack what
// was acknowledged last: then the folder gets a new generation, epochs change, and clients begin afresh rather than miss
// something without notice. The same happens when the folder was replaced by a copy, or files in it were changed after a clean end. What is
// cut off from a file after a kill is noticed, except for the last second. An external server is configured by its operator.
//
// # What others may do
//
// When a stream is deleted, made anew, or is shorter than it was, and when somebody else deletes publications, epochs change. The last is
// known from the advisories of the server, for which an external one has to allow subscribing to $JS.EVENT.ADVISORY.API; nobody hears of
// what is deleted while no broker is connected. Nor is it noticed when the store of an external server is replaced by an older
// copy meanwhile: whoever does that should delete the streams, too.
//
// A full disk stops the embedded server. Publications are refused, what is there can be loaded, and as soon as there is space it is
// started anew.
package nats
