#!/usr/bin/env python3
"""Copies of Redis that are dumped and restored by CRIU, in the lab's guest: `cargo xtask lab criu`.

Three members replicate Redis with 100,000 keys (`criu.py GREGALE [KEYS]`). A copy is dumped. Then
one copy is killed, one member is killed, and one copy is made to differ behind its member's back.
Each begins again with the dump, and has to be in step again: all copies have the same digest, and
the members' comparisons agree. In the end a copy that was restored is dumped itself.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

GIVEN, GREGALE = sys.argv[1], "/tmp/criu-lab/gregale"
N_KEYS = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
PORT, MEMBERS = 6400, (1, 2, 3)
WORK = "/tmp/criu-lab"
COMPARE, CHECKPOINT = 100, 400
MODULES = ("unix_diag", "tcp_diag", "udp_diag", "inet_diag", "netlink_diag", "af_packet_diag")
REDIS = (
    "redis-server --port 0 --unixsocket {socket} --dir {dir} --save '' --timeout 0 "
    "--enable-debug-command yes"
)
# Each wait has a limit; the guest is some ten times slower than its host.
WITHIN_S = 400


class Lost(Exception):
    """The connection has ended: what was asked was executed, or not."""


def ask(address, *words):
    """One request and its answer, on a connection of its own."""
    request = b"*%d\r\n" % len(words)
    for word in words:
        word = str(word).encode()
        request += b"$%d\r\n%s\r\n" % (len(word), word)
    kind = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(kind, socket.SOCK_STREAM) as stream:
        stream.settimeout(WITHIN_S)
        try:
            stream.connect(address)
            stream.sendall(request)
            answer = b""
            while not answer.endswith(b"\r\n"):
                piece = stream.recv(4096)
                if not piece:
                    raise Lost("closed")
                answer += piece
        except OSError as error:
            raise Lost(str(error)) from error
    return answer.decode().strip().split("\r\n")[-1]


def client(member):
    return ("127.0.0.1", PORT + member - 1)


def wait_for(what, poll):
    """Asks until there is an answer, and says how long that took."""
    since = time.monotonic()
    while time.monotonic() - since < WITHIN_S:
        found = poll()
        if found:
            print(f"{time.monotonic() - since:7.1f} s until {what}", flush=True)
            return found
        time.sleep(0.1)  # between two looks
    print(open(f"{WORK}/up.log").read())
    print(json.dumps(status(), indent=1))
    sys.exit(f"waited in vain until {what}")


def status():
    """What the members say about themselves, by their numbers."""
    controls = re.findall(r"http://([0-9.:]+)/", open(f"{WORK}/up.log").read())
    for control in reversed(controls):
        command = [GREGALE, "status", "--control", control, "--format", "json"]
        said = subprocess.run(command, capture_output=True, check=False)
        if said.returncode == 0:
            return {it["id"]: it for it in json.loads(said.stdout)["members"]}
    return {}


def programs():
    return {id: it["program"] for id, it in status().items() if it.get("program")}


def children(pid):
    text = open(f"/proc/{pid}/task/{pid}/children").read()
    return [int(child) for child in text.split()]


def copy_of(member):
    """The process of a member's copy: the child of the child that has launched it.

    One that is being dumped has a second child by then, which is younger.
    """
    launch = children(status()[member]["pid"])[0]
    (copy,) = children(launch)
    return copy


def socket_of(member):
    """The socket of a member's copy, as its host sees it."""
    base = f"/dev/shm/gregale-local-{PORT}"
    names = [name for name in os.listdir(base) if name.startswith(f"copy-{member}.")]
    return f"{base}/{max(names)}/socket"


def write(n):
    """Increments a number so often, by all members in turn; each time by a new connection."""
    for at in range(n):
        try:
            ask(client(MEMBERS[at % 3]), "INCR", "n")
        except Lost:
            pass  # its member is away, or its connection was closed for a checkpoint


def digests():
    try:
        return [ask(client(member), "DEBUG", "DIGEST") for member in MEMBERS]
    except Lost:
        return []


def is_level(by):
    """Whether all copies were asked for the same, and have it."""
    found = digests()
    return len(found) == 3 and len(set(found)) == 1 and by(programs())


def wait_in_step(member, before, copy):
    """Waits for the next process of a member, which has begun with a dump and answers as all do."""
    wait_for("the copy has ended", lambda: not os.path.exists(f"/proc/{copy}"))

    def has_begun():
        it = status().get(member)
        is_new = it and it["pid"] != before["pid"] and it.get("program")
        return is_new and it["program"]["began_at"] > 0

    wait_for(f"member {member} has another process that has begun with the dump", has_begun)

    def has_caught_up():
        now = programs()
        places = {it["executed"] for it in now.values()}
        return len(now) == 3 and len(places) == 1 and is_level(lambda _: True)

    wait_for(f"member {member}'s copy has the others' digest", has_caught_up)
    matched = {id: it["verdicts"]["matched"] for id, it in programs().items()}

    def agrees():
        write(30)
        now = programs()
        more = all(now[id]["verdicts"]["matched"] >= matched[id] + 2 for id in now)
        return len(now) == 3 and more and now[member]["verdicts"]["agreed_by"] == 3

    wait_for("two comparisons more, in which all three agree", agrees)
    began_at, at = programs()[member]["began_at"], programs()[member]["executed"]
    print(f"          (it began at entry {began_at}, and is at {at})", flush=True)


def new_checkpoint():
    """Writes until one checkpoint more counts."""
    before = max(it["checkpoints"] for it in programs().values())

    def is_there():
        write(30)
        now = programs()
        vain = [it for it in now.values() if it.get("trouble")]
        if vain:
            sys.exit(f"a checkpoint is in vain: {vain[0]['trouble']}")
        return len(now) == 3 and all(it["checkpoints"] > before for it in now.values())

    wait_for("a dump has gone through the log and counts", is_there)
    now = programs()[1]
    print(f"          (at entry {now['checkpoint_at']}; the transcript has "
          f"{now['transcript_bytes'] / 1e6:.1f} MB)", flush=True)


def main():
    subprocess.run(["modprobe", "-a", *MODULES], check=True)
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    shutil.copy(GIVEN, GREGALE)  # where it lies, no page of it is kept in memory
    command = [GREGALE, "up", "--durability", "memory-quorum", "--port", str(PORT)]
    command += ["--program-save", "criu", "--program-checkpoint", str(CHECKPOINT)]
    command += ["--program-compare", str(COMPARE), "--program-close", "2"]
    command += ["--replicate", REDIS]
    log = open(f"{WORK}/up.log", "w")
    up = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        scenario()
    finally:
        up.send_signal(signal.SIGINT)
        up.wait(60)
    print("all copies were in step again each time")


def scenario():
    def is_ready():
        try:
            return ask(client(1), "PING") == "+PONG"
        except Lost:
            return False

    wait_for("three members serve", is_ready)
    print(f"populated: {ask(client(1), 'DEBUG', 'POPULATE', N_KEYS)}, {N_KEYS} keys", flush=True)
    new_checkpoint()

    print("--- the copy of member 2 is killed", flush=True)
    before, copy = status()[2], copy_of(2)
    os.kill(copy, signal.SIGKILL)
    wait_in_step(2, before, copy)

    print("--- member 3 is killed", flush=True)
    before, copy = status()[3], copy_of(3)
    os.kill(before["pid"], signal.SIGKILL)
    wait_in_step(3, before, copy)

    print("--- the copy of member 1 is made to differ", flush=True)
    before, copy = status()[1], copy_of(1)
    differed = programs()[2]["verdicts"]["differed"]
    ask(socket_of(1), "SET", "m", "otherwise")

    def is_found():
        for member in MEMBERS:
            try:
                ask(client(member), "GET", "m")
            except Lost:
                pass
        write(10)
        now = programs()
        return 2 in now and now[2]["verdicts"]["differed"] > differed

    wait_for("the comparison has found it", is_found)
    wait_in_step(1, before, copy)
    if ask(client(1), "GET", "m") != "$-1":
        sys.exit("the key that was set behind the member's back is still there")

    print("--- copies that were restored are dumped, and restored again", flush=True)
    new_checkpoint()
    before, copy = status()[2], copy_of(2)
    os.kill(before["pid"], signal.SIGKILL)
    wait_in_step(2, before, copy)


main()
