"""Calls that are repeated until a member answers, or for too long."""
import sys
import time

import redis

PATIENCE = 60
PORTS = [int(word) for word in sys.argv[1:]]


def patiently(call):
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return call()
        except (redis.RedisError, OSError) as error:
            if time.monotonic() > deadline:
                raise
            print("again after", type(error).__name__, error, flush=True)
            time.sleep(0.1)


def kill():
    """Has a member killed."""
    print("kill", flush=True)
    sys.stdin.readline()
