"""Redlock takes a lock, nobody else can, and it releases what it took: with a script."""
from patience import PORTS
from redlock import Redlock

one = Redlock([{"host": "127.0.0.1", "port": PORTS[0], "db": 0}])
other = Redlock([{"host": "127.0.0.1", "port": PORTS[1], "db": 0}], retry_count=1)
for n in range(3):
    lock = one.lock("resource", 30_000)
    assert lock, "the lock is free"
    assert not other.lock("resource", 30_000), "the lock is taken"
    other.unlock(lock._replace(key="not the key"))
    assert not other.lock("resource", 30_000), "who has not the key releases nothing"
    one.unlock(lock)
    lock = other.lock("resource", 30_000)
    assert lock, "the lock was released"
    other.unlock(lock)
print("well", flush=True)
