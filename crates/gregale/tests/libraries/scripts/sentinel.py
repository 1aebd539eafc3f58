"""A client that asks sentinels finds the leader, and the next one when it dies."""
from patience import PORTS, kill, patiently
from redis.sentinel import Sentinel

sentinel = Sentinel([("127.0.0.1", port) for port in PORTS], socket_timeout=5)
host, port = patiently(lambda: sentinel.discover_master("mymaster"))
assert port in PORTS, port
assert len(sentinel.discover_slaves("mymaster")) == len(PORTS) - 1
client = sentinel.master_for("mymaster", socket_timeout=5)
for n in range(4):
    patiently(lambda: client.set("k", n))
    assert patiently(lambda: client.get("k")) == str(n).encode()
    if n < 3:
        kill()
print("well", flush=True)
