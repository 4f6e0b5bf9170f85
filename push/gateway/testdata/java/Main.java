import static java.util.stream.IntStream.rangeClosed;

import io.github.centrifugal.centrifuge.*;
import java.util.*;

// Main runs the official Java client against a node of the test that starts it: Main NAME. Without a name it prints the names of all scenarios, as a
// JSON array.
final class Main {
    // Scenario is one of the tests: it is given a node, and fails by throwing.
    interface Scenario {
        void run(Harness.Node node) throws Exception;
    }

    private static final Map<String, Scenario> SCENARIOS = new TreeMap<>(Map.of(
        "walksThroughEverything", Main::walk,
        "recovers", Main::recovers,
        "recoversFromNothing", Main::recoversFromNothing,
        "startsFreshInAnotherEpoch", Main::startsFresh,
        "takesResetsForInterruptions", Main::resets,
        "endsAsTold", Main::ends));

    private Main() {}

    public static void main(String[] args) throws Exception {
        if (args.length == 0) {
            List<String> names = new ArrayList<>(SCENARIOS.keySet());
            names.addAll(Tokens.SCENARIOS.keySet());
            System.out.println("[\"" + String.join("\", \"", names) + "\"]");
            return;
        }
        try {
            Scenario scenario = Tokens.SCENARIOS.get(args[0]);
            if (scenario != null) scenario.run(new Harness.Node("tokens.yaml"));
            else SCENARIOS.get(args[0]).run(new Harness.Node("node.yaml", "--insecure"));
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1);
        }
        System.exit(0); // clients that are still connected do not hold it up
    }

    // values are the publications from one number to another.
    private static String[] values(int from, int to) {
        return rangeClosed(from, to).mapToObj(String::valueOf).toArray(String[]::new);
    }

    // walk makes all requests of the client.
    private static void walk(Harness.Node node) throws Exception {
        Harness.Person person = node.connect();
        List<Harness.Follower> others = new ArrayList<>();
        for (int i = 1; i <= 50; i++) others.add(person.follow("long:" + i));
        for (Harness.Follower other : others) other.begun(false, false);
        Harness.Follower news = person.follow("news");
        news.begun(false, false);
        for (int i = 1; i <= 20; i++) {
            byte[] data = Harness.bytes("{\"i\":" + i + "}");
            Harness.<PublishResult>result(done -> person.sdk.publish("news", data, done));
            node.publish("news", "{\"i\":" + -i + "}");
            news.want("{\"i\":" + i + "}", "{\"i\":" + -i + "}");
        }
        HistoryOptions newest = new HistoryOptions.Builder().withLimit(2).withReverse(true).build();
        HistoryResult history = Harness.result(done -> news.sdk.history(newest, done));
        Harness.equal(history.getOffset(), 40L);
        Harness.equal(history.getPublications().stream().map(p -> Harness.text(p.getData())).toList(), List.of("{\"i\":-20}", "{\"i\":20}"));
        StreamPosition position = new StreamPosition(37, history.getEpoch());
        HistoryOptions since = new HistoryOptions.Builder().withLimit(100).withSince(position).build();
        HistoryResult rest = Harness.result(done -> person.sdk.history("news", since, done));
        Harness.equal(rest.getPublications().stream().map(Publication::getOffset).toList(), List.of(38L, 39L, 40L));
        PresenceResult present = Harness.result(done -> news.sdk.presence(done));
        Harness.equal(present.getClients().size(), 1);
        PresenceStatsResult stats = Harness.result(done -> person.sdk.presenceStats("news", done));
        Harness.equal(List.of(stats.getNumClients(), stats.getNumUsers()), List.of(1, 1));
        RPCResult paced = Harness.result(done -> person.sdk.rpc("sluice.pace", Harness.bytes("{\"channel\":\"news\",\"interval\":0}"), done));
        Harness.check(Harness.text(paced.getData()).startsWith("{"), "the rpc answers " + Harness.text(paced.getData()));
        Harness.equal(Harness.<PublishResult>refused(done -> person.sdk.publish("nowhere:a", Harness.bytes(1), done)), 102);
        Harness.equal(Harness.<PublishResult>refused(done -> person.sdk.publish("news", Harness.bytes("no JSON"), done)), 107);
        Harness.equal(Harness.<RPCResult>refused(done -> person.sdk.rpc("nothing", Harness.bytes("{}"), done)), 108);
        Harness.await(person.follow("nowhere:a").events, "unsubscribed 102");
        news.sdk.unsubscribe();
        Harness.await(news.events, "unsubscribed 0");
        for (String channel : List.of("news", "long:1")) { // come after the unsubscribe command, on the same connection
            Harness.<PublishResult>result(done -> person.sdk.publish(channel, Harness.bytes("1"), done));
        }
        others.get(0).want("1");
        Harness.check(news.values.isEmpty(), "after the unsubscribe came " + news.values);
    }

    // recovers cuts the client off, again and again, while something is published.
    private static void recovers(Harness.Node node) throws Exception {
        Harness.Person person = node.connect();
        Harness.Follower news = person.follow("long:news");
        news.begun(false, false);
        int n = 0;
        for (int round = 0; round < 3; round++) {
            node.publish("long:news", ++n);
            news.want(values(n, n));
            person.cut();
            for (int i = 0; i < 30; i++) node.publish("long:news", ++n);
            person.line.mend();
            news.begun(true, true);
            news.want(values(n - 29, n));
        }
        node.publish("long:news", ++n);
        news.want(values(n, n));
    }

    // recoversFromNothing: a client that has subscribed to a channel without publications has an epoch and no offset. It recovers from the first
    // publication on.
    private static void recoversFromNothing(Harness.Node node) throws Exception {
        Harness.Person person = node.connect();
        Harness.Follower news = person.follow("long:news");
        news.begun(false, false);
        person.cut(); // and once more without any publication
        person.line.mend();
        news.begun(true, true);
        person.cut();
        for (int i = 1; i <= 3; i++) node.publish("long:news", i);
        person.line.mend();
        news.begun(true, true);
        news.want(values(1, 3));
    }

    private static void startsFresh(Harness.Node node) throws Exception {
        Harness.Person person = node.connect();
        Harness.Follower news = person.follow("long:news");
        Harness.Follower empty = person.follow("long:empty");
        news.begun(false, false);
        empty.begun(false, false);
        for (int i = 1; i <= 5; i++) node.publish("long:news", i);
        news.want(values(1, 5));
        node.restart();
        news.begun(true, false);
        empty.begun(true, false);
        for (Harness.Follower follower : List.of(news, empty)) {
            node.publish(follower.sdk.getChannel(), 1); // the same number as in the epoch that is over
            follower.want(values(1, 1));
        }
        person.cut(); // from its new position it recovers
        for (Harness.Follower follower : List.of(news, empty)) node.publish(follower.sdk.getChannel(), 2);
        person.line.mend();
        for (Harness.Follower follower : List.of(news, empty)) {
            follower.begun(true, true);
            follower.want(values(2, 2));
        }
    }

    // resets: this version of the client does not know the codes 3014 and 2502. It comes back as after any other code, and recovers.
    private static void resets(Harness.Node node) throws Exception {
        Harness.Person person = node.connect();
        Harness.Follower news = person.follow("long:news");
        news.begun(false, false);
        int n = 0;
        for (int round = 0; round < 3; round++) {
            node.publish("long:news", ++n);
            news.want(values(n, n));
            node.api("disconnect", "{" + person.id() + ", \"code\": 3014, \"reason\": \"reset\"}");
            Harness.await(person.events, "connecting 3014");
            Harness.await(person.events, "connected");
            news.begun(true, true);
            node.publish("long:news", ++n);
            news.want(values(n, n));
            node.api("unsubscribe", "{" + person.id() + ", \"channel\": \"long:news\", \"code\": 2502, \"reason\": \"reset\"}");
            Harness.await(news.events, "subscribing 2502");
            news.begun(true, true);
        }
        node.publish("long:news", ++n);
        news.want(values(n, n));
    }

    // ends ends subscriptions and the connection from the server, with and without coming back.
    private static void ends(Harness.Node node) throws Exception {
        Harness.Person person = node.connect();
        Harness.Follower news = person.follow("news");
        Harness.Follower weather = person.follow("weather");
        news.begun(false, false);
        weather.begun(false, false);
        for (int code : new int[] {3000, 3499, 4000}) {
            node.api("disconnect", "{" + person.id() + ", \"code\": " + code + ", \"reason\": \"go elsewhere\"}");
            Harness.await(person.events, "connecting " + code);
            Harness.await(person.events, "connected");
            news.begun(true, true);
            weather.begun(true, true);
        }
        node.api("unsubscribe", "{" + person.id() + ", \"channel\": \"news\"}");
        Harness.await(news.events, "unsubscribed 2000");
        node.publish("news", "\"unseen\"");
        node.publish("weather", "\"fair\"");
        weather.want("\"fair\"");
        Harness.check(news.values.isEmpty(), "after the unsubscribe came " + news.values);
        node.api("disconnect", "{" + person.id() + ", \"code\": 3500, \"reason\": \"go away\"}");
        Harness.await(person.events, "disconnected 3500 go away");
    }
}
