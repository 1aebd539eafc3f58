// Jedis or Lettuce in cluster mode finds all members, and goes on when one dies.

import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;

public class Cluster {
    static final long PATIENCE_MS = 60_000;

    /** What the test needs of a library. */
    interface Client {
        void set(String key, String value) throws Exception;

        String get(String key) throws Exception;
    }

    static <T> T patiently(Callable<T> call) throws Exception {
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        for (;;) {
            try {
                return call.call();
            } catch (Exception error) {
                if (System.currentTimeMillis() > deadline) throw error;
                System.out.println("again after " + error);
                Thread.sleep(100);
            }
        }
    }

    static Client jedis(List<String> ports) throws Exception {
        Set<HostAndPort> members = new HashSet<>();
        for (String port : ports) members.add(new HostAndPort("127.0.0.1", Integer.parseInt(port)));
        JedisCluster cluster = patiently(() -> new JedisCluster(members));
        for (String port : ports)
            if (!cluster.getClusterNodes().containsKey("127.0.0.1:" + port))
                throw new IllegalStateException(port + " is not known");
        return new Client() {
            public void set(String key, String value) {
                cluster.set(key, value);
            }

            public String get(String key) {
                return cluster.get(key);
            }
        };
    }

    static Client lettuce(List<String> ports) throws Exception {
        List<RedisURI> members = new ArrayList<>();
        for (String port : ports)
            members.add(RedisURI.create("redis://127.0.0.1:" + port + "?timeout=5s"));
        RedisClusterClient client = RedisClusterClient.create(members);
        client.setOptions(ClusterClientOptions.builder()
            .topologyRefreshOptions(ClusterTopologyRefreshOptions.builder()
                .enablePeriodicRefresh(Duration.ofSeconds(1))
                .enableAllAdaptiveRefreshTriggers()
                .build())
            .build());
        var commands = patiently(client::connect).sync();
        int known = client.getPartitions().size();
        if (known != ports.size()) throw new IllegalStateException(known + " members are known");
        return new Client() {
            public void set(String key, String value) {
                commands.set(key, value);
            }

            public String get(String key) {
                return commands.get(key);
            }
        };
    }

    static void setAll(Client client, String value) throws Exception {
        for (int n = 0; n < 60; n++) {
            String key = "key:" + n;
            patiently(() -> {
                client.set(key, value);
                return null;
            });
        }
    }

    public static void main(String[] args) throws Exception {
        List<String> ports = List.of(args).subList(1, args.length);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        Client client = args[0].equals("jedis") ? jedis(ports) : lettuce(ports);
        setAll(client, "before");
        for (int round = 0; round < 3; round++) {
            System.out.println("kill");
            if (lines.readLine() == null) throw new IllegalStateException("nobody answers");
            String value = "after " + round;
            setAll(client, value);
            for (int n = 0; n < 60; n++) {
                String key = "key:" + n;
                String found = patiently(() -> client.get(key));
                if (!value.equals(found)) throw new IllegalStateException(key + " is " + found);
            }
        }
        System.out.println("well");
        System.exit(0);
    }
}
