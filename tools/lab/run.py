#!/usr/bin/env python3
"""Boots the lab's guest, runs a command in it as root, shows its output, and ends as it does.

    run.py LAB SECONDS FILE COMMAND...

LAB is the directory that `prepare.sh` has made. FILE is copied to where the guest finds it as
`/job/NAME`: a program that was just built. The guest is emulated, so this takes no rights.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

lab, seconds, file, command = sys.argv[1], float(sys.argv[2]), sys.argv[3], sys.argv[4:]
job = tempfile.mkdtemp(prefix="job.", dir=lab)
shutil.copy(file, job)
with open(f"{job}/command", "w") as out:
    out.write(shlex.join(command) + "\n")


def share(tag, path, flags=""):
    options = f"local,id={tag},path={path},security_model=none,multidevs=remap{flags}"
    return ["-fsdev", options, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


# No -accel kvm: a host in a virtual machine may not run Debian's kernel by it.
guest = ["qemu-system-x86_64", "-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max"]
guest += ["-M", "q35", "-m", "2048", "-smp", "2", "-nodefaults", "-no-user-config", "-no-reboot"]
guest += ["-display", "none", "-serial", f"file:{job}/console", "-device", "virtio-rng-pci"]
guest += ["-kernel", f"{lab}/vmlinux", "-initrd", f"{lab}/initrd.gz"]
guest += [
    "-append",
    "console=ttyS0 quiet panic=-1 nokaslr mitigations=off nopti tsc=reliable random.trust_cpu=on "
    "audit=0 selinux=0 apparmor=0",
]
guest += share("hostroot", "/", ",readonly=on")
guest += share("extra", f"{lab}/extra", ",readonly=on")
guest += share("job", job)

shown, ends_by = 0, time.monotonic() + seconds
process = subprocess.Popen(guest, stdin=subprocess.DEVNULL)


def show():
    """Shows what the command has printed since the last time."""
    global shown
    try:
        with open(f"{job}/output", "rb") as output:
            output.seek(shown)
            more = output.read()
    except FileNotFoundError:
        return
    shown += len(more)
    sys.stdout.buffer.write(more)
    sys.stdout.flush()


while True:
    try:
        process.wait(0.5)
        break
    except subprocess.TimeoutExpired:
        show()
    if time.monotonic() > ends_by:
        process.kill()
        process.wait()
        show()
        sys.exit(f"the guest was ended after {seconds:.0f} s; its console is {job}/console")
show()
try:
    status = int(open(f"{job}/status").read())
except FileNotFoundError:
    sys.exit(f"the guest has ended without a word; its console is {job}/console")
shutil.rmtree(job)
sys.exit(status)
