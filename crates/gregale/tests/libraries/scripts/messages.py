"""A message that is published at one member is heard at all."""
import time

import redis
from patience import PORTS, patiently

members = [redis.Redis(port=port, socket_timeout=10) for port in PORTS]
hearers = [member.pubsub(ignore_subscribe_messages=True) for member in members]
for hearer in hearers:
    hearer.subscribe("news")
    hearer.psubscribe("ot*")
    # Both acknowledgements.
    for _ in range(2):
        hearer.get_message(timeout=10)


def heard(hearer):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        message = hearer.get_message(timeout=1)
        if message:
            return message
    raise SystemExit("a message does not come")


for n, member in enumerate(members):
    patiently(lambda: member.publish("news", f"by {n}"))
    patiently(lambda: member.eval("return redis.call('PUBLISH', 'other', ARGV[1])", 0, n))
    # Channels of different partitions have no order between them.
    for hearer in hearers:
        found = {(m["type"], m["channel"], m["data"]) for m in [heard(hearer), heard(hearer)]}
        assert found == {
            ("message", b"news", f"by {n}".encode()),
            ("pmessage", b"other", str(n).encode()),
        }, found
assert members[0].pubsub_channels() == [b"news"]
assert members[0].pubsub_numpat() == 1
print("well", flush=True)
