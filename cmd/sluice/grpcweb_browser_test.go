package main_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	dto "github.com/prometheus/client_model/go"

	"github.com/sluice-push/sluice/internal/testwait"
)

// grpcWebPage is a page of another origin with the gRPC-Web client of the gRPC project. Its methods are described by hand; messages are encoded as
// the description of the services says, which the page fetches. The client reads a stream in binary only when the stream has ended, so the page
// listens in text.
const grpcWebPage = `<!doctype html><title>grpc-web</title><script type="importmap">{"imports": {
	"@bufbuild/protobuf": "/modules/@bufbuild/protobuf/dist/esm/index.js",
	"@bufbuild/protobuf/wkt": "/modules/@bufbuild/protobuf/dist/esm/wkt/index.js",
	"grpc-web": "/modules/grpc-web/index.esm.js"
}}</script><script type="module">
import { create, createFileRegistry, fromBinary, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { GrpcWebClientBase, MethodDescriptor, MethodType } from "grpc-web";

const description = new Uint8Array(await (await fetch("/description")).arrayBuffer());
const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, description));
const descriptor = (service, name, type) => {
	const { input, output } = registry.getService(service).method[name];
	return new MethodDescriptor("/" + service + "/" + name[0].toUpperCase() + name.slice(1), type, Object, Object,
		message => toBinary(input, create(input, message)), bytes => fromBinary(output, bytes));
};
const consume = descriptor("sluice.client.v1.Client", "consume", MethodType.SERVER_STREAMING);
const send = descriptor("sluice.client.v1.Client", "send", MethodType.UNARY);
const listen = descriptor("centrifugal.centrifugo.unistream.CentrifugoUniStream", "consume", MethodType.SERVER_STREAMING);
const clients = {text: new GrpcWebClientBase({format: "text"}), binary: new GrpcWebClientBase({format: "binary"})};
const decode = data => new TextDecoder().decode(data);

// Stream is a call with all that it got.
class Stream {
	got = [];
	ends = "";
	#waiting = [];

	constructor(node, format, method, request) {
		this.call = clients[format].serverStreaming(node + method.getName(), request, {}, method);
		this.call.on("data", message => {
			this.got.push(message);
			for (const check of [...this.#waiting]) check();
		});
		this.call.on("status", ({code, details, metadata}) => {
			this.ends = code + " " + details + " " + metadata["sluice-disconnect-code"];
		});
	}

	until(fits) {
		return new Promise(resolve => {
			const check = () => {
				const found = this.got.find(fits);
				if (found) resolve(found);
			};
			this.#waiting.push(check);
			check();
		});
	}
}

window.done = {};

// walk sends commands in a format beside a stream, which stays open.
window.walk = async (node, format) => {
	const seen = [];
	try {
		const stream = new Stream(node, "text", consume, {id: 1, connect: {}});
		const { connect } = await stream.until(r => r.id === 1);
		seen.push("connected");
		const tell = (session, ...commands) =>
			clients[format].unaryCall(node + send.getName(), {session, node: connect.node, commands}, {}, send);
		const channel = "walk:" + format;
		await tell(connect.session, {id: 2, subscribe: {channel}});
		await stream.until(r => r.id === 2);
		seen.push("subscribed");
		for (let i = 0; i < 50; i++) {
			const data = new TextEncoder().encode(JSON.stringify("x".repeat(i)));
			await tell(connect.session, {id: 100 + i, publish: {channel, data}});
		}
		await stream.until(r => r.push?.pub && decode(r.push.pub.data).length === 51);
		seen.push(stream.got.filter(r => r.push?.pub).map(r => decode(r.push.pub.data).length - 2).join());
		try {
			await tell("guessed");
			seen.push("taken");
		} catch (e) {
			seen.push(e.code);
		}
		window.ends = () => stream.ends;
		window.client = connect.client;
	} catch (e) {
		seen.push(String(e));
	}
	done[format] = seen.join(" ");
};

// hear listens in binary.
window.hear = (node, channel) => {
	const stream = new Stream(node, "binary", listen, {subs: {[channel]: {}}});
	window.ends = () => stream.ends;
	window.heard = () => stream.got.map(p => p.connect ? Object.keys(p.connect.subs)[0] : p.pub ? decode(p.pub.data) : p.disconnect.code).join(" ");
};
window.loaded = true;
</script>`

// TestGRPCWebInBrowser: the gRPC-Web client of the gRPC project in Chromium works from a page of another origin, in text and in binary.
func TestGRPCWebInBrowser(t *testing.T) {
	t.Parallel()
	pages, p := servePage(t, grpcWebPage)
	b := openTab(t, true) // the console tells of refusals
	b.do(chromedp.Navigate(pages.URL))
	b.await("window.loaded === true")
	node := "http://" + p.public
	goAway := func(client string) {
		p.api("disconnect", map[string]any{"client": client, "code": 3599, "reason": "go away"})
		b.await("ends() !== ''")
		if got := eval[string](b, "ends()"); got != "9 go away 3599" {
			t.Errorf("the stream ended with %s", got)
		}
	}
	numbers := "0"
	for i := 1; i < 50; i++ {
		numbers += fmt.Sprint(",", i)
	}
	for _, format := range []string{"text", "binary"} {
		eval[bool](b, fmt.Sprintf("walk(%q, %q), true", node, format))
		b.await(fmt.Sprintf("done[%q] !== undefined", format))
		if got := eval[string](b, fmt.Sprintf("done[%q]", format)); got != "connected subscribed "+numbers+" 5" {
			t.Fatalf("%s: %s", format, got)
		}
		goAway(eval[string](b, "client"))
	}

	eval[bool](b, fmt.Sprintf("hear(%q, %q), true", node, "walk:heard"))
	var client string
	testwait.True(t, "the page listens", func() bool {
		for id := range p.api("presence", map[string]string{"channel": "walk:heard"})["presence"].(map[string]any) {
			client = id
		}
		return client != ""
	})
	delivered := func(s map[string]*dto.MetricFamily) float64 { return metric(s["sluice_deliveries_total"]) }
	before := delivered(p.scrape())
	p.api("publish", map[string]string{"channel": "walk:heard", "data": "hello"})
	p.eventuallyShown("the client has got it", func(s map[string]*dto.MetricFamily) bool { return delivered(s) > before })
	goAway(client) // in binary, the page gets all at the end
	if got := eval[string](b, "heard()"); got != `walk:heard "hello" 3599` {
		t.Errorf("the page heard %s", got)
	}
}
