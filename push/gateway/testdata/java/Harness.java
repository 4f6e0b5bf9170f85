import io.github.centrifugal.centrifuge.*;
import java.io.*;
import java.net.*;
import java.net.http.*;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.*;
import java.util.regex.*;
import java.util.stream.*;

// Harness has what the scenarios stand on: a node to talk to, clients that can be cut off, and waiting that ends.
//
// A scenario asks the test for a node with a line of JSON on standard output, {"do": "start", "args": […]}, and is answered with one on standard
// input.
final class Harness {
    // PATIENCE is how long anything may take, in seconds; waiting for more than that has failed. It is only reached by failures.
    static final long PATIENCE = 30;

    private Harness() {}

    // Node is a running sluice serve.
    static final class Node {
        private static final HttpClient HTTP = HttpClient.newHttpClient();
        private final BufferedReader answers = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        private final String args; // of its command line, as JSON
        volatile String address;

        // Node starts a node with a configuration, which the scenarios of the JavaScript client use too, and further arguments.
        Node(String config, String... more) throws IOException {
            String file = new File("../sdk/" + config).getCanonicalPath();
            args = "[\"--config\", \"" + file + "\"" + Stream.of(more).map(arg -> ", \"" + arg + "\"").collect(Collectors.joining()) + "]";
            start();
        }

        private void start() throws IOException {
            String answer = ask("{\"do\": \"start\", \"args\": " + args + "}");
            Matcher found = Pattern.compile("\"address\":\"([^\"]+)\"").matcher(answer);
            check(found.find(), "the test answers " + answer);
            address = found.group(1);
        }

        // restart kills the process and starts another, elsewhere: clients that connect again find it, as behind a load balancer.
        void restart() throws IOException {
            ask("{\"do\": \"kill\"}");
            start();
        }

        private String ask(String request) throws IOException {
            System.out.println(request);
            String answer = answers.readLine();
            check(answer != null, "the test went away");
            return answer;
        }

        // api calls a method of the HTTP API.
        void api(String method, String request) throws IOException, InterruptedException {
            HttpRequest post = HttpRequest.newBuilder(URI.create("http://" + address + "/api/" + method))
                .timeout(java.time.Duration.ofSeconds(PATIENCE)).header("X-API-Key", "key")
                .POST(HttpRequest.BodyPublishers.ofString(request)).build();
            String reply = HTTP.send(post, HttpResponse.BodyHandlers.ofString()).body();
            check(reply.startsWith("{\"result\""), method + ": " + reply);
        }

        void publish(String channel, Object data) throws IOException, InterruptedException {
            api("publish", "{\"channel\": \"" + channel + "\", \"data\": " + data + "}");
        }

        // client returns a client that has not been told to connect yet. more sets further options.
        Person client(Consumer<Options> more) throws Exception {
            return new Person(this, more);
        }

        // connect returns a client that is connected.
        Person connect(Consumer<Options> more) throws Exception {
            Person person = client(more);
            person.sdk.connect();
            await(person.events, "connected");
            return person;
        }

        Person connect() throws Exception {
            return connect(options -> {});
        }
    }

    // Line is the way from a client to the node: a relay that can be cut, with all that is on it.
    static final class Line {
        private final Node node;
        private final ServerSocket listener;
        private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
        private final AtomicInteger connections = new AtomicInteger();
        private volatile boolean offline;

        Line(Node node) throws IOException {
            this.node = node;
            listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
            run(this::accept);
        }

        String url() {
            return "ws://127.0.0.1:" + listener.getLocalPort() + "/connection/websocket";
        }

        // connections is how many connections the client has made.
        int connections() {
            return connections.get();
        }

        // cut breaks the connections and refuses others until mend is called.
        synchronized void cut() throws IOException {
            offline = true;
            for (Socket socket : sockets) socket.close();
            sockets.clear();
        }

        void mend() {
            offline = false;
        }

        private void accept() throws IOException {
            for (;;) {
                Socket client = listener.accept();
                String[] to = node.address.split(":");
                try {
                    connect(client, new Socket(to[0], Integer.parseInt(to[1])));
                } catch (ConnectException e) {
                    client.close(); // there is no node at the moment
                }
            }
        }

        private synchronized void connect(Socket client, Socket server) throws IOException {
            if (offline) {
                client.close();
                server.close();
                return;
            }
            connections.incrementAndGet();
            sockets.addAll(List.of(client, server));
            run(() -> pump(client, server));
            run(() -> pump(server, client));
        }

        // pump ends both directions when one has ended.
        private static void pump(Socket from, Socket to) throws IOException {
            try (from; to) {
                from.getInputStream().transferTo(to.getOutputStream());
            } catch (SocketException e) {
                // the line was cut, or the other direction has ended
            }
        }

        // Body is a task of a thread.
        private interface Body {
            void run() throws IOException;
        }

        private static void run(Body body) {
            Thread thread = new Thread(() -> {
                try {
                    body.run();
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
    }

    // Person is the official client, as an application has it, and the line it uses.
    static final class Person extends EventListener {
        final BlockingQueue<String> events = new LinkedBlockingQueue<>();
        final Line line;
        final Client sdk;
        private volatile String id; // of the newest connection

        private Person(Node node, Consumer<Options> more) throws Exception {
            line = new Line(node);
            Options options = new Options();
            options.setData("{\"device\": \"till\"}".getBytes(StandardCharsets.UTF_8));
            options.setTimeout((int) (PATIENCE * 1000));
            options.setMinReconnectDelay(20);
            options.setMaxReconnectDelay(100);
            more.accept(options);
            sdk = new Client(line.url(), options, this);
        }

        String id() {
            return "\"client\": \"" + id + "\"";
        }

        @Override
        public void onConnecting(Client client, ConnectingEvent event) {
            events.add("connecting " + event.getCode());
        }

        @Override
        public void onConnected(Client client, ConnectedEvent event) {
            id = event.getClient();
            events.add("connected");
        }

        @Override
        public void onDisconnected(Client client, DisconnectedEvent event) {
            events.add("disconnected " + event.getCode() + " " + event.getReason());
        }

        // onError notes the codes with which the node refuses requests of the client itself: to connect, and to refresh its connection.
        @Override
        public void onError(Client client, ErrorEvent event) {
            Throwable error = event.getError() instanceof RefreshError ? ((RefreshError) event.getError()).getError() : event.getError();
            if (error instanceof ReplyError) events.add("error " + ((ReplyError) error).getCode());
        }

        // follow makes a subscription and begins it. more sets further options.
        Follower follow(String channel, Consumer<SubscriptionOptions> more) throws Exception {
            return new Follower(sdk, channel, more);
        }

        Follower follow(String channel) throws Exception {
            return follow(channel, options -> {});
        }

        // cut breaks the connection and keeps the client from making another until line.mend is called.
        void cut() throws Exception {
            line.cut();
            awaitStart(events, "connecting");
        }
    }

    // Follower is a subscription with all that it got.
    static final class Follower extends SubscriptionEventListener {
        final BlockingQueue<String> events = new LinkedBlockingQueue<>();
        final BlockingQueue<String> values = new LinkedBlockingQueue<>();
        final Subscription sdk;

        private Follower(Client client, String channel, Consumer<SubscriptionOptions> more) throws Exception {
            SubscriptionOptions options = new SubscriptionOptions();
            options.setPositioned(true);
            options.setRecoverable(true);
            options.setMinResubscribeDelay(20);
            options.setMaxResubscribeDelay(100);
            more.accept(options);
            sdk = client.newSubscription(channel, options, this);
            sdk.subscribe();
        }

        @Override
        public void onSubscribing(Subscription sub, SubscribingEvent event) {
            events.add("subscribing " + event.getCode());
        }

        @Override
        public void onSubscribed(Subscription sub, SubscribedEvent event) {
            events.add("subscribed, was recovering: " + event.wasRecovering() + ", recovered: " + event.getRecovered());
        }

        @Override
        public void onUnsubscribed(Subscription sub, UnsubscribedEvent event) {
            events.add("unsubscribed " + event.getCode());
        }

        @Override
        public void onPublication(Subscription sub, PublicationEvent event) {
            values.add(text(event.getData()));
        }

        // begun waits until the subscription has begun, and compares what the client says then.
        void begun(boolean wasRecovering, boolean recovered) throws Exception {
            String event = awaitStart(events, "subscribed");
            equal(event, "subscribed, was recovering: " + wasRecovering + ", recovered: " + recovered);
        }

        // want waits for the next publications.
        void want(String... all) throws Exception {
            for (String value : all) equal(next(values, value), value);
        }
    }

    static String text(byte[] data) {
        return new String(data, StandardCharsets.UTF_8);
    }

    static byte[] bytes(Object data) {
        return data.toString().getBytes(StandardCharsets.UTF_8);
    }

    // result makes a call and returns its result. An error is thrown.
    static <T> T result(Consumer<ResultCallback<T>> call) throws Exception {
        CompletableFuture<T> done = new CompletableFuture<>();
        call.accept((error, value) -> {
            if (error != null) done.completeExceptionally(error);
            else done.complete(value);
        });
        return done.get(PATIENCE, TimeUnit.SECONDS);
    }

    // refused makes a call and returns the code of its error.
    static <T> int refused(Consumer<ResultCallback<T>> call) throws Exception {
        try {
            result(call);
        } catch (ExecutionException e) {
            check(e.getCause() instanceof ReplyError, "the error is " + e.getCause());
            return ((ReplyError) e.getCause()).getCode();
        }
        throw new AssertionError("there was no error");
    }

    // next returns the next item of a queue. what is said in the error.
    static String next(BlockingQueue<String> queue, String what) throws InterruptedException {
        String item = queue.poll(PATIENCE, TimeUnit.SECONDS);
        check(item != null, "waited in vain for " + what);
        return item;
    }

    // awaitStart takes items until one starts as wanted, and returns it.
    static String awaitStart(BlockingQueue<String> queue, String want) throws InterruptedException {
        return await(queue, item -> item.startsWith(want), want);
    }

    // await takes items until the wanted one.
    static void await(BlockingQueue<String> queue, String want) throws InterruptedException {
        await(queue, want::equals, want);
    }

    // await takes items until one fits, and returns it. An error names the others.
    private static String await(BlockingQueue<String> queue, Predicate<String> fits, String want) throws InterruptedException {
        List<String> others = new ArrayList<>();
        for (;;) {
            String item = queue.poll(PATIENCE, TimeUnit.SECONDS);
            check(item != null, "waited in vain for " + want + ", saw " + others);
            if (fits.test(item)) return item;
            others.add(item);
        }
    }

    static void equal(Object got, Object want) {
        check(Objects.equals(got, want), "got " + got + ", want " + want);
    }

    static void check(boolean holds, String otherwise) {
        if (!holds) throw new AssertionError(otherwise);
    }
}
