#!/usr/bin/env bash
# Makes the lab's guest in directory $1: Debian's kernel for this machine's release, a few packages that
# are unpacked and not installed, and a small first file system. What is there already is kept.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/debs" "$1/kernel" "$1/extra/usr"
cd "$1"

image=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -1)
version=${image#linux-image-}
packages=("$image" kmod redis-server redis-tools libjemalloc2 liblzf1)
for package in "${packages[@]}"; do
    compgen -G "debs/${package}_*.deb" >/dev/null || (cd debs && apt-get -o APT::Sandbox::User=root download -qq "$package")
done

modules=extra/usr/lib/modules
if [ ! -e "$modules/$version/modules.dep" ]; then
    dpkg -x debs/"$image"_*.deb kernel
    for deb in debs/*.deb; do
        case $deb in debs/linux-image*) ;; *) dpkg -x "$deb" extra ;; esac
    done
    # The host's /bin, /sbin and /lib are links into /usr: directories of these names would hide them.
    for name in bin sbin lib; do
        if [ -d "extra/$name" ] && [ ! -L "extra/$name" ]; then
            mkdir -p "extra/usr/$name"
            cp -a "extra/$name/." "extra/usr/$name/"
            rm -r "extra/${name:?}"
        fi
    done
    mkdir -p "$modules"
    cp -al "kernel/lib/modules/$version" "$modules/"
    mkdir -p kmod/lib
    ln -sfn "$PWD/$modules" kmod/lib/modules
    ln -sf "$PWD/extra/usr/bin/kmod" kmod/depmod
    kmod/depmod -b kmod "$version"
fi

# The kernel as it is behind its own unpacker: emulated, that would take ten seconds.
[ -e vmlinux ] || python3 - "kernel/boot/vmlinuz-$version" <<'P'
import lzma
import sys

image, at = open(sys.argv[1], "rb").read(), -1
while (at := image.find(b"\xfd7zXZ\0", at + 1)) >= 0:
    try:
        kernel = lzma.LZMADecompressor(format=lzma.FORMAT_XZ).decompress(image[at:])
    except lzma.LZMAError:
        continue
    if kernel.startswith(b"\x7fELF"):
        open("vmlinux", "wb").write(kernel)
        sys.exit()
sys.exit("the kernel's image holds no kernel packed by XZ")
P

# The modules that the first file system takes, each behind those that it needs.
rm -rf first
mkdir -p first/bin first/modules
cp "$(command -v busybox)" first/bin/busybox
ln -s busybox first/bin/sh
cp "$here/init" first/init
cp "$here/init-root" first/init-root
chmod +x first/init first/init-root
python3 - "$modules/$version" virtio_pci 9pnet_virtio 9p overlay <<'P'
import pathlib
import shutil
import sys

base, wanted, order = pathlib.Path(sys.argv[1]), sys.argv[2:], []
needs = dict(line.split(":") for line in (base / "modules.dep").read_text().splitlines())
paths = {pathlib.Path(path).stem.replace("-", "_"): path for path in needs}


def add(path):
    for needed in reversed(needs[path].split()):
        add(needed)
    if path not in order:
        order.append(path)


for name in wanted:
    add(paths[name])
for path in order:
    shutil.copy(base / path, "first/modules")
names = [pathlib.Path(path).name for path in order]
pathlib.Path("first/modules/order").write_text("\n".join(names) + "\n")
P
(cd first && find . | cpio -o -H newc --quiet | gzip -1) >initrd.gz
