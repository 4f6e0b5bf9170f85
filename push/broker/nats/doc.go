// Package nats is a broker on NATS JetStream. The server is embedded in the process, keeps its data in a folder, and opens no socket by default;
// or it is an external server or cluster, given by URL. The code between is the same.
//
// # Streams and subjects
//
// Every partition of a namespace is one JetStream stream, named sluice_NAMESPACE_INDEX. Its sequence numbers are the offsets. The stream of a
// durable namespace is stored in files, any other in memory. A publication is a message:
//
//	sluice.NAMESPACE.s.CHANNEL         stream mode; with several partitions s0, s1, … instead of s
//	sluice.NAMESPACE.t.CHANNEL.KEY     value and table mode, likewise: one message a row; the row of a value channel has the empty key
//	sluice.NAMESPACE.t.CHANNEL.%c      the last clear of a table
//
// CHANNEL is the whole name, namespace included. In names, the bytes that have a meaning to NATS or a file system (space, '.', '*', '>', '/',
// '\', '%' and control characters) are written as '%' and two hexadecimal digits. An empty name is a lone '%'. See [Subject].
//
// Headers: Sluice-Key (if the subject does not have the key), Sluice-Removed, Sluice-Cleared, Sluice-Tag-NAME, Sluice-Info, all escaped in a
// similar way. Nats-Msg-Id is the channel, %00 and the idempotency key. Nats-TTL makes a removal live for as long as the history of its
// namespace requires. Other programs may publish as well: a message to the subject of a channel, with any of these headers or none, is a
// publication. [Options.Check] decides which data they may send.
//
// # How it works
//
// Publish waits for the server's acknowledgement. [Options.Window] bounds how many publications may be pending. If the server refuses one, the
// error is [broker.ErrBusy]. While followers are attached in this process, publishers also wait for them: no channel gets more publications
// ahead of its followers than the server keeps of it (of a table, one publication a row). So nothing that this process publishes is evicted
// before it was delivered.
//
// Each follower has one ordered, unfiltered push consumer on the partition's stream. After a lost connection, a restart of the server or a
// silence, a message may be missing: then the consumer is made again from the last offset. A channel is loaded by batches of direct gets, never
// by a consumer. In stream mode a jump in the sequence is a gap. In a table it is not, as long as no removal can have expired unseen: a missing
// row was replaced by a newer one, which is still to come.
//
// An epoch is a hash of the time at which the stream was created, the index and the number of partitions, the generation of the stream, and for
// a durable namespace on an embedded server the generation of the data folder. The stream gets another generation when publications are found to
// be lost or deleted by another program. For the folder see below.
//
// # What an acknowledgement promises
//
// An acknowledged publication is in the store of the server, and survives the end of this process and of the server's, kill -9 included. Whether
// it survives the end of the machine depends on [Options.Sync]: an embedded server syncs to the disk at intervals, by default every two minutes,
// or before each acknowledgement. If the machine stopped without a clean end, the data may lack the last acknowledged publications. Then the
// folder gets another generation and all epochs change, so that clients begin afresh instead of missing publications without notice. The same
// happens if the folder was replaced by a copy, or if files in it were changed after a clean end. If a file was cut short after a kill, that is
// noticed, except for the publications of the last second. An external server is configured by its operator.
//
// # Changes by other programs
//
// Epochs change if a stream is deleted, made again, or shorter than it was, and if another program deletes publications. The last is known from
// the advisories of the server, so an external one has to permit a subscription to $JS.EVENT.ADVISORY.API. Deletions go unnoticed while no
// broker is connected. So does the replacement of an external server's store by an older copy: an operator who restores a copy should delete the
// streams, too.
//
// If the disk is full, the embedded server stops. Publications are refused, and stored ones can still be loaded. As soon as there is space, the
// broker starts the server again.
package nats
