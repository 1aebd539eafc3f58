"""A lock of Redlock that is taken after a quiet minute is held for its time."""
import time

from patience import PORTS
from redlock import Redlock

TTL_S = 20
# State time follows a wall clock by one part of a hundred.
LEAST_S = TTL_S * 0.99

one = Redlock([{"host": "127.0.0.1", "port": PORTS[0], "db": 0}])
other = Redlock([{"host": "127.0.0.1", "port": PORTS[1], "db": 0}], retry_count=1)
lock = one.lock("before", 1000)
assert lock, "the lock is free"
one.unlock(lock)
time.sleep(60)
before = time.monotonic()
assert one.lock("resource", TTL_S * 1000), "the lock is free"
while not other.lock("resource", 1000):
    assert time.monotonic() < before + 10 * TTL_S, "the lock is never free"
held = time.monotonic() - before
assert held >= LEAST_S, f"a lock of {TTL_S} s was free after {held} s"
print("well", flush=True)
