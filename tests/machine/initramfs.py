"""What the emulated machine boots from: a busybox, a few modules, and a script that puts the host's root in place.

The host's root is read-only; what is written in the machine goes to its memory. `/out` is the one folder that both
see and both may write. Format: "newc" of the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.
"""

from __future__ import annotations

import shlex
from pathlib import Path

# What stands between a bare kernel and the host's root; drivers of the drives are loaded from there.
MODULES = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay")

_SCRIPT = """#!/busybox sh
PATH=/
export PATH
busybox mkdir -p /proc /sys /dev /host /layer /memory /root
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs dev /dev
for module in {modules}; do busybox insmod /$module; done
busybox mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 host /host
busybox mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 layer /layer
busybox mount -t tmpfs memory /memory
busybox mkdir -p /memory/upper /memory/work
busybox mount -t overlay -o lowerdir=/layer:/host,upperdir=/memory/upper,workdir=/memory/work machine /root
busybox mkdir -p /root/out
busybox mount -t 9p -o trans=virtio,version=9p2000.L,cache=none,msize=512000 out /root/out
for place in proc sys dev; do busybox mount -o move /$place /root/$place; done
busybox mkdir -p /root/dev/pts /root/dev/shm
busybox mount -t devpts devpts /root/dev/pts
busybox mount -t tmpfs run /root/run
busybox chroot /root {command}
busybox echo the guest program ended
busybox poweroff -f
"""


def with_dependencies(modules: Path, names: tuple[str, ...]) -> list[Path]:
    """Files of the modules and of all they need, each after what it needs. `modules`: /lib/modules/VERSION."""
    needs = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        file, _, others = line.partition(":")
        needs[Path(file).name.split(".")[0].replace("-", "_")] = [file, *others.split()]
    ordered: dict[str, None] = {}
    for name in names:
        # modules.dep lists what is needed directly first: the last is to be loaded first.
        ordered.update(dict.fromkeys(reversed(needs.get(name, []))))  # none: built into the kernel
    return [modules / file for file in ordered]


def archive(files: dict[str, tuple[int, bytes]]) -> bytes:
    """A cpio archive of {name: (mode, contents)}, in the kernel's "newc" format."""
    parts = []
    for number, (name, (mode, data)) in enumerate([*files.items(), ("TRAILER!!!", (0, b""))], 1):
        path = name.encode() + b"\0"
        # ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
        header = b"070701" + b"".join(b"%08X" % value for value in fields)
        parts += [_padded(header + path), _padded(data)]
    return b"".join(parts)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def initramfs(cache: Path, command: list[str]) -> bytes:
    """The archive to boot; `command` is then run in the host's root, and when it ends the machine is switched off."""
    (version,) = (cache / "root/usr/lib/modules").iterdir()
    modules = with_dependencies(version, MODULES)
    script = _SCRIPT.format(modules=" ".join(file.name for file in modules), command=shlex.join(command))
    regular, runnable = 0o100644, 0o100755
    files = {file.name: (regular, file.read_bytes()) for file in modules}
    return archive(
        {
            "init": (runnable, script.encode()),
            "busybox": (runnable, (cache / "busybox.static").read_bytes()),
            **files,
        }
    )
