"""A client in cluster mode finds all members, and goes on when one dies."""
from patience import PORTS, kill, patiently
from redis.cluster import ClusterNode, RedisCluster

nodes = [ClusterNode("127.0.0.1", port) for port in PORTS]
client = patiently(lambda: RedisCluster(startup_nodes=nodes, socket_timeout=5))
keys = [f"key:{n}" for n in range(60)]
for key in keys:
    patiently(lambda: client.set(key, "before"))
used = {client.get_node_from_key(key).port for key in keys}
assert used == set(PORTS), f"the members share the slots: {used}"
assert client.eval("return redis.call('GET', KEYS[1])", 1, "key:7") == b"before"
for round in range(3):
    kill()
    for key in keys:
        patiently(lambda: client.set(key, f"after {round}"))
    for key in keys:
        assert patiently(lambda: client.get(key)) == f"after {round}".encode()
print("well", flush=True)
