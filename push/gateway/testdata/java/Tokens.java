import io.github.centrifugal.centrifuge.*;
import java.security.GeneralSecurityException;
import java.time.Instant;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

// Tokens has the scenarios of how the official client gets tokens, presents them, and gets others when they end. Their node demands tokens.
final class Tokens {
    static final Map<String, Main.Scenario> SCENARIOS = Map.ofEntries(
        Map.entry("refreshesItsConnection", Tokens::refreshes),
        Map.entry("asksForAnotherWhenItsTokenHasEnded", Tokens::asksForAnother),
        Map.entry("connectsAgainWhenItsNewTokenHasEnded", Tokens::connectsAgain),
        Map.entry("stopsWhenItsNewTokenIsOfAnotherUser", Tokens::stopsAsAnotherUser),
        Map.entry("stopsWithoutAnotherTokenWhenItsHasEnded", Tokens::stopsWithoutAnother),
        Map.entry("stopsWithAnInvalidToken", Tokens::stopsWithAnInvalidToken),
        Map.entry("stopsWhenItIsUnauthorized", Tokens::stopsUnauthorized),
        Map.entry("isEndedWhenItsTokenIsRevoked", Tokens::isRevoked),
        Map.entry("subscribesWithATokenAndRefreshesIt", Tokens::subscribes),
        Map.entry("endsItsSubscriptionWhenTheTokenHasEnded", Tokens::endsItsSubscription),
        Map.entry("isKeptOutOfAPrivateChannel", Tokens::isKeptOut));

    private static final String SECRET = "a secret that only the scenarios know";
    private static final Map<String, String> ANN = Map.of("sub", "ann");
    private static final Map<String, String> IN_SECRET_A = Map.of("sub", "ann", "channel", "secret:a");

    private Tokens() {}

    // signed returns a token as a back end makes it, which ends so many seconds from now.
    private static String signed(String key, Map<String, String> claims, long seconds) {
        String more = claims.entrySet().stream().map(c -> ", \"" + c.getKey() + "\": \"" + c.getValue() + "\"").collect(Collectors.joining());
        String body = "{\"exp\": " + (Instant.now().getEpochSecond() + seconds) + more + "}";
        String text = part(Harness.bytes("{\"alg\": \"HS256\"}")) + "." + part(Harness.bytes(body));
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(Harness.bytes(key), "HmacSHA256"));
            return text + "." + part(mac.doFinal(Harness.bytes(text)));
        } catch (GeneralSecurityException e) {
            throw new AssertionError(e); // every JDK has HMAC-SHA-256
        }
    }

    private static String part(byte[] data) {
        return Base64.getUrlEncoder().withoutPadding().encodeToString(data);
    }

    private static String token(Map<String, String> claims, long seconds) {
        return signed(SECRET, claims, seconds);
    }

    // Maker makes a token when it is asked for, so that it has its whole life before it.
    private interface Maker {
        String make() throws UnauthorizedException;
    }

    private static String unauthorized() throws UnauthorizedException {
        throw new UnauthorizedException();
    }

    // Source gives the tokens of these makers one after the other, those of the last one again and again.
    private static final class Source {
        private final Maker[] makers;
        private final AtomicInteger count = new AtomicInteger();
        private final BlockingQueue<String> calls = new LinkedBlockingQueue<>(); // the number of each

        Source(Maker... makers) {
            this.makers = makers;
        }

        // atLeast waits until so many tokens were asked for.
        void atLeast(int n) throws Exception {
            Harness.await(calls, String.valueOf(n));
        }

        // count is how many tokens were asked for.
        int count() {
            return count.get();
        }

        private void next(TokenCallback done) {
            int n = count.incrementAndGet();
            calls.add(String.valueOf(n));
            String token;
            try {
                token = makers[Math.min(n, makers.length) - 1].make();
            } catch (UnauthorizedException e) {
                done.Done(e, null);
                return;
            }
            done.Done(null, token);
        }

        // ofClient has a client get its tokens here.
        void ofClient(Options options) {
            options.setTokenGetter(new ConnectionTokenGetter() {
                @Override
                public void getConnectionToken(ConnectionTokenEvent event, TokenCallback done) {
                    next(done);
                }
            });
        }

        // ofSubscription has a subscription get its tokens here.
        void ofSubscription(SubscriptionOptions options) {
            options.setTokenGetter(new SubscriptionTokenGetter() {
                @Override
                public void getSubscriptionToken(SubscriptionTokenEvent event, TokenCallback done) {
                    Harness.equal(event.getChannel(), "secret:a");
                    next(done);
                }
            });
        }
    }

    // ends has a client connect and waits until it stops for good, after so many connections.
    private static void ends(Harness.Person person, String event, int connections) throws Exception {
        person.sdk.connect();
        Harness.await(person.events, event);
        Harness.equal(person.sdk.getState(), ClientState.DISCONNECTED);
        Harness.equal(person.line.connections(), connections);
    }

    // remains checks that a client is still on its first connection, and that it was not refused anything since it connected.
    private static void remains(Harness.Person person) throws Exception {
        Harness.equal(Harness.<PublishResult>refused(done -> person.sdk.publish("news", Harness.bytes(1), done)), 103); // clients do not publish here
        Harness.check(person.events.isEmpty(), "after the connection came " + person.events);
        Harness.equal(person.line.connections(), 1);
    }

    private static void refreshes(Harness.Node node) throws Exception {
        Source source = new Source(() -> token(ANN, 2));
        Harness.Person person = node.connect(source::ofClient);
        source.atLeast(3); // to connect, and for two refreshes, of which the node has accepted one
        remains(person);
    }

    private static void asksForAnother(Harness.Node node) throws Exception {
        Source source = new Source(() -> token(ANN, 600));
        Harness.Person person = node.client(options -> {
            options.setToken(token(ANN, -100));
            source.ofClient(options);
        });
        person.sdk.connect();
        Harness.await(person.events, "error 109");
        Harness.await(person.events, "connected");
        Harness.equal(source.count(), 1);
    }

    // connectsAgain: the second token, for the refresh, has ended. The client presents it once more when it connects again, and asks for the third.
    private static void connectsAgain(Harness.Node node) throws Exception {
        Source source = new Source(() -> token(ANN, 2), () -> token(ANN, -100), () -> token(ANN, 600));
        Harness.Person person = node.connect(source::ofClient);
        for (String event : List.of("connecting 3005", "error 109", "connected")) Harness.await(person.events, event);
        Harness.equal(source.count(), 3);
    }

    private static void stopsAsAnotherUser(Harness.Node node) throws Exception {
        Source source = new Source(() -> token(ANN, 2), () -> token(Map.of("sub", "bob"), 600));
        ends(node.client(source::ofClient), "disconnected 3500 invalid token", 1);
        Harness.equal(source.count(), 2);
    }

    // stopsWithoutAnother: the application gives a token that has ended and no function for others.
    private static void stopsWithoutAnother(Harness.Node node) throws Exception {
        Harness.Person person = node.client(options -> options.setToken(token(ANN, -100)));
        person.sdk.connect();
        Harness.await(person.events, "error 109");
        Harness.await(person.events, "disconnected 1 unauthorized"); // the client's own
    }

    private static void stopsWithAnInvalidToken(Harness.Node node) throws Exception {
        for (String bad : List.of(signed("another secret, which the node does not know", ANN, 600), "bogus")) {
            ends(node.client(options -> options.setToken(bad)), "disconnected 3500 invalid token", 1);
        }
        ends(node.client(options -> {}), "disconnected 3500 invalid token: a token is required", 1);
    }

    // stopsUnauthorized: this client asks for its token when the connection is open, and leaves without a command. Later it is to refresh.
    private static void stopsUnauthorized(Harness.Node node) throws Exception {
        Source never = new Source(Tokens::unauthorized);
        ends(node.client(never::ofClient), "disconnected 1 unauthorized", 1); // the client's own
        Harness.equal(never.count(), 1);
        Source once = new Source(() -> token(ANN, 2), Tokens::unauthorized);
        ends(node.client(once::ofClient), "disconnected 1 unauthorized", 1);
        Harness.equal(once.count(), 2);
    }

    private static void isRevoked(Harness.Node node) throws Exception {
        Harness.Person person = node.connect(options -> options.setToken(token(Map.of("sub", "ann", "jti", "1"), 600)));
        node.api("revoke_token", "{\"uid\": \"1\"}");
        Harness.await(person.events, "disconnected 3500 invalid token");
        ends(person, "disconnected 3500 invalid token", 2);
    }

    private static void subscribes(Harness.Node node) throws Exception {
        Harness.Person person = node.connect(options -> options.setToken(token(ANN, 600)));
        Source source = new Source(() -> token(IN_SECRET_A, 2));
        Harness.Follower follower = person.follow("secret:a", source::ofSubscription);
        follower.begun(false, false);
        source.atLeast(3); // to subscribe, and for two refreshes, of which the node has accepted one
        node.publish("secret:a", 1);
        follower.want("1");
        Harness.check(follower.events.isEmpty(), "after the subscription came " + follower.events);
        remains(person);
    }

    // endsItsSubscription: if a client subscribes with a token that has ended, other SDKs ask for another. This version ends the subscription, and
    // asks when the application subscribes again. If the token of a refresh has ended, every SDK ends the subscription.
    private static void endsItsSubscription(Harness.Node node) throws Exception {
        Harness.Person person = node.connect(options -> options.setToken(token(ANN, 600)));
        Source source = new Source(() -> token(IN_SECRET_A, 2), () -> token(IN_SECRET_A, -100));
        Harness.Follower follower = person.follow("secret:a", options -> {
            options.setToken(token(IN_SECRET_A, -100));
            source.ofSubscription(options);
        });
        Harness.await(follower.events, "unsubscribed 109");
        Harness.equal(source.count(), 0);
        follower.sdk.subscribe();
        follower.begun(false, false);
        Harness.await(follower.events, "unsubscribed 109");
        Harness.equal(source.count(), 2);
        remains(person);
    }

    private static void isKeptOut(Harness.Node node) throws Exception {
        Harness.Person person = node.connect(options -> options.setToken(token(ANN, 600)));
        Map<String, String> refusals = Map.of(
            "none", "",
            "of another user", token(Map.of("sub", "bob", "channel", "secret:a"), 600),
            "for another channel", token(Map.of("sub", "ann", "channel", "secret:b"), 600),
            "of a connection", token(ANN, 600));
        for (Map.Entry<String, String> refusal : refusals.entrySet()) {
            Harness.Follower follower = person.follow("secret:a", options -> options.setToken(refusal.getValue()));
            Harness.equal(refusal.getKey() + ": " + Harness.awaitStart(follower.events, "unsubscribed"), refusal.getKey() + ": unsubscribed 103");
            person.sdk.removeSubscription(follower.sdk);
        }
        Source unauthorized = new Source(Tokens::unauthorized);
        Harness.Follower follower = person.follow("secret:a", unauthorized::ofSubscription);
        Harness.await(follower.events, "unsubscribed 1"); // the client's own
        Harness.equal(unauthorized.count(), 1);
        remains(person);
    }
}
