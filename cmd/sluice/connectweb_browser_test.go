package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
	"github.com/sluice-push/sluice/push/protocol/protobuf/unistream"
)

// webPage is a page of another origin with the stock clients of Connect and gRPC-Web. They learn the service from its description, which the page
// fetches.
const webPage = `<!doctype html><title>connect-web</title><script type="importmap">{"imports": {
	"@bufbuild/protobuf": "/modules/@bufbuild/protobuf/dist/esm/index.js",
	"@bufbuild/protobuf/codegenv2": "/modules/@bufbuild/protobuf/dist/esm/codegenv2/index.js",
	"@bufbuild/protobuf/wire": "/modules/@bufbuild/protobuf/dist/esm/wire/index.js",
	"@bufbuild/protobuf/wkt": "/modules/@bufbuild/protobuf/dist/esm/wkt/index.js",
	"@connectrpc/connect": "/modules/@connectrpc/connect/dist/esm/index.js",
	"@connectrpc/connect/protocol": "/modules/@connectrpc/connect/dist/esm/protocol/index.js",
	"@connectrpc/connect/protocol-connect": "/modules/@connectrpc/connect/dist/esm/protocol-connect/index.js",
	"@connectrpc/connect/protocol-grpc-web": "/modules/@connectrpc/connect/dist/esm/protocol-grpc-web/index.js",
	"@connectrpc/connect-web": "/modules/@connectrpc/connect-web/dist/esm/index.js"
}}</script><script type="module">
import { createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";

const description = new Uint8Array(await (await fetch("/description")).arrayBuffer());
const service = createFileRegistry(fromBinary(FileDescriptorSetSchema, description)).getService("sluice.client.v1.Client");
const transports = {
	"gRPC-Web": baseUrl => createGrpcWebTransport({baseUrl}),
	"Connect JSON": baseUrl => createConnectTransport({baseUrl}),
	"Connect Protobuf": baseUrl => createConnectTransport({baseUrl, useBinaryFormat: true}),
};

window.done = {};
window.walk = async (node, name) => {
	const seen = [];
	try {
		const client = createClient(service, transports[name](node));
		const end = new AbortController();
		const replies = client.consume({id: 1, connect: {}}, {signal: end.signal})[Symbol.asyncIterator]();
		const until = async (fits) => {
			for (;;) {
				const { value, done } = await replies.next();
				if (done) throw new Error("the stream ended");
				if (fits(value)) return value;
			}
		};
		const { connect } = await until(r => r.id === 1);
		seen.push("connected");
		const send = (...commands) => client.send({session: connect.session, node: connect.node, commands});
		const channel = "walk:" + name.replace(" ", "");
		await send({id: 2, subscribe: {channel}});
		await until(r => r.id === 2);
		seen.push("subscribed");
		const data = new TextEncoder().encode('"hello"');
		await send({id: 3, publish: {channel, data}});
		const pub = (await until(r => r.push?.pub)).push.pub;
		seen.push(new TextDecoder().decode(pub.data));
		try {
			await client.send({session: "guessed", node: connect.node, commands: []});
			seen.push("taken");
		} catch (e) {
			seen.push(Code[e.code]);
		}
		end.abort();
		done[name] = seen.join(" ");
	} catch (e) {
		done[name] = seen.join(" ") + ": " + e;
	}
};
window.loaded = true;
</script>`

// servePage serves a page with the npm packages below /modules/ and the description of the services, and starts a node that the page may use.
func servePage(t *testing.T, page string) (pages *httptest.Server, p *process) {
	t.Helper()
	description, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(clientv1.File_clientv1_client_proto), protodesc.ToFileDescriptorProto(unistream.File_unistream_unistream_proto),
	}})
	must(t, err)
	mux := http.NewServeMux()
	modules := filepath.Join("..", "..", "push", "gateway", "testdata", "sdk", "node_modules")
	mux.Handle("/modules/", http.StripPrefix("/modules/", http.FileServer(http.Dir(modules))))
	mux.HandleFunc("/description", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(description) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, page)
	})
	pages = httptest.NewServer(mux)
	t.Cleanup(pages.Close)
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	must(t, os.WriteFile(file, fmt.Appendf(nil, "origins: [%q]\nnamespaces: [{name: walk}]\n", pages.URL), 0o600))
	return pages, startNode(t, "--insecure", "--config", file)
}

// TestConnectWebInBrowser: the stock clients of Connect and gRPC-Web in Chromium work from a page of another origin.
func TestConnectWebInBrowser(t *testing.T) {
	t.Parallel()
	pages, p := servePage(t, webPage)
	b := openTab(t, true) // the console tells of refusals
	b.do(chromedp.Navigate(pages.URL))
	b.await("window.loaded === true")
	for _, name := range []string{"gRPC-Web", "Connect JSON", "Connect Protobuf"} {
		eval[bool](b, fmt.Sprintf("walk(%q, %q), true", "http://"+p.public, name))
		b.await(fmt.Sprintf("done[%q] !== undefined", name))
		if got := eval[string](b, fmt.Sprintf("done[%q]", name)); got != `connected subscribed "hello" NotFound` {
			t.Errorf("%s: %s", name, got)
		}
	}
}
