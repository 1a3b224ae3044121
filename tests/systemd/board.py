"""A gateway with 64-bit ARM, emulated: Debian's kernel and systemd, cgroups that hold, a clock that
stands at 1970, and no network but this machine's loopback.

What a container here cannot show: memory that is really short, and time that is really wrong. The
root, the kernel and an initrd are made once by mmdebstrap, the ARM programs in it run by user-mode
emulation, and kept below target/. Each board has a fresh disk and is told what to do over its
serial line. As root on Debian only; installs what it needs.

Slow: a fast machine takes a minute until the board listens, a busy one some.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from rig import ROOT, fail, require_tools, run

KEPT = ROOT / "target/systemd/arm64-1"
TOOLS = {"mmdebstrap": "mmdebstrap", "unshare": "util-linux", "ip": "iproute2", "cpio": "cpio",
         "mke2fs": "e2fsprogs", "qemu-system-aarch64": "qemu-system-arm",
         "qemu-aarch64-static": "qemu-user-static"}
FORMAT = Path("/usr/lib/binfmt.d/qemu-aarch64.conf")
PACKAGES = "systemd,systemd-sysv"
# In the order in which they need one another.
MODULES = ["crypto/crc32c_generic", "lib/libcrc32c", "lib/crc16", "fs/mbcache", "fs/jbd2/jbd2",
           "fs/ext4/ext4", "drivers/virtio/virtio_pci_modern_dev",
           "drivers/virtio/virtio_pci_legacy_dev", "drivers/virtio/virtio_pci",
           "drivers/block/virtio_blk", "net/core/failover", "drivers/net/net_failover",
           "drivers/net/virtio_net"]
# The emulator's own network: the board is .15, and .2 leads to this machine's loopback.
BOARD, HOST = "10.0.2.15", "10.0.2.2"
INIT = f"""\
#!/bin/busybox sh
busybox=/bin/busybox
$busybox mount -t proc proc /proc
$busybox mount -t devtmpfs dev /dev
for module in $($busybox cat /order); do $busybox insmod /$module; done
until [ -b /dev/vda ]; do $busybox sleep 0.1; done
$busybox mount -t ext4 -o rw,noatime /dev/vda /disk
$busybox ip link set lo up
$busybox ip link set eth0 up
$busybox ip address add {BOARD}/24 dev eth0
$busybox mount --move /dev /disk/dev
$busybox umount /proc
exec $busybox switch_root /disk /sbin/init
"""
# One line in, what it prints out, then its exit code behind a mark.
LINE = """\
[Unit]
Description=What the script outside says
[Service]
Environment=SYSTEMD_PAGER= SYSTEMD_COLORS=0 LANG=C.UTF-8
ExecStart=/bin/sh -c 'stty raw -echo; echo; echo "@@ 0"; \\
    while IFS= read -r line; do eval "$line"; code=$$?; echo; echo "@@ $$code"; done'
StandardInput=tty-force
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyAMA0
[Install]
WantedBy=multi-user.target
"""
# Jobs that look for updates, and logins on the line that the script speaks on.
MASKED = ["apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer",
          "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer", "getty.target"]
BOOT_SECONDS = 400


def emulated(*command):
    """Runs a command that runs ARM programs. In a user namespace, which has a table of binary
    formats of its own: this machine's stays as it is."""
    script = ("echo in >&3 && read -r _ && mount -t binfmt_misc none /proc/sys/fs/binfmt_misc"
              " && cat >/proc/sys/fs/binfmt_misc/register && exec \"$@\"")
    reading, writing = os.pipe()
    words = ["unshare", "--user", "--mount", "--pid", "--kill-child", "sh", "-c",
             f"exec 3>&{writing}; {script}", "sh", *map(str, command)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=[writing])
    os.close(writing)
    os.read(reading, 3)
    os.close(reading)
    for name in ("uid_map", "gid_map"):
        Path(f"/proc/{process.pid}/{name}").write_text("0 0 65536\n")
    process.communicate(b"\n" + FORMAT.read_bytes().splitlines()[0])
    if process.returncode != 0:
        fail(f"{command[0]} ended with {process.returncode}")


def make_root(target):
    """Debian 12 for 64-bit ARM with systemd, as an archive. Takes some minutes."""
    emulated("mmdebstrap", "--quiet", "--mode=root", "--arch=arm64", "--variant=minbase",
             f"--include={PACKAGES}", "--skip=check/empty,check/qemu,chroot/mount/sys",
             "bookworm", target)


def make_kernel(kernel, initrd):
    """Debian's kernel, and an initrd with what it takes to reach a disk and a network."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        tree, room = Path(folder) / "tree", Path(folder) / "room"
        # Only unpacked: nothing of it is run.
        run("mmdebstrap", "--quiet", "--arch=arm64", "--variant=extract",
            "--include=linux-image-arm64,busybox-static", "--skip=check/qemu", "bookworm", tree)
        (room / "bin").mkdir(parents=True)
        for name in ("proc", "dev", "disk"):
            (room / name).mkdir()
        shutil.copy(tree / "bin/busybox", room / "bin")
        [modules] = (tree / "lib/modules").iterdir()
        names = [Path(module).name + ".ko" for module in MODULES]
        for module in MODULES:
            shutil.copy(modules / "kernel" / f"{module}.ko", room)
        (room / "order").write_text("\n".join(names))
        (room / "init").write_text(INIT)
        (room / "init").chmod(0o755)
        with open(initrd, "wb") as file:
            run("sh", "-c", "find . | cpio --quiet --create --format=newc | gzip", cwd=room,
                stdout=file)
        [found] = (tree / "boot").glob("vmlinuz-*")
        shutil.copy(found, kernel)


def prepare():
    """What every board is made of; made the first time."""
    require_tools(TOOLS)
    if KEPT.exists():
        return
    print(f"systemd: making {KEPT.relative_to(ROOT)}", file=sys.stderr)
    part = KEPT.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    make_kernel(part / "kernel", part / "initrd")
    make_root(part / "root.tar")
    part.rename(KEPT)


def make_disk(disk, files):
    """A disk with the root and `files`, by their places on it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        root = Path(folder) / "root"
        root.mkdir()
        run("tar", "--extract", "--file", KEPT / "root.tar", "--directory", root,
            "--exclude=./dev/*", "--exclude=./var/cache/*", "--exclude=./usr/share/doc/*")
        units = root / "etc/systemd/system"
        for name in MASKED:
            (units / name).symlink_to("/dev/null")
        (units / "line.service").write_text(LINE)
        wanted = units / "multi-user.target.wants"
        wanted.mkdir(exist_ok=True)
        (wanted / "line.service").symlink_to("/etc/systemd/system/line.service")
        for place, source in files.items():
            target = root / place.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        run("mke2fs", "-q", "-t", "ext4", "-d", root, disk, "800M", stdout=subprocess.DEVNULL)


class Board:
    """A board that runs, and the line to it."""

    def __init__(self, emulator, line, log):
        self.emulator, self.line, self.log = emulator, line, log
        self.text = b""

    def answer(self, seconds):
        """What comes before the next mark, and the exit code behind it."""
        deadline = time.monotonic() + seconds
        while not (mark := re.search(rb"\n@@ (\d+)\n", self.text)):
            self.line.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                piece = self.line.recv(65536)
            except TimeoutError:
                piece = b""
            if not piece:
                raise AssertionError(f"no word from the board: {self.text.decode()[-2000:]}")
            self.log.write(piece)
            self.text += piece
        said, self.text = self.text[:mark.start()], self.text[mark.end():]
        return said.decode(errors="replace").strip(), int(mark[1])

    def run(self, command, check=True, seconds=120):
        """What a line of shell prints there."""
        self.line.sendall(command.encode() + b"\n")
        said, code = self.answer(seconds)
        if check and code != 0:
            raise AssertionError(f"{command}: {code}: {said}")
        return said


@contextmanager
def board(memory_mib, ports, files):
    """A board that has booted. Its clock begins at 1970; `ports` maps ports of this machine's
    loopback to its own."""
    with tempfile.TemporaryDirectory(prefix="staffetta-board-", dir="/var/tmp") as folder:
        room = Path(folder)
        make_disk(room / "disk", files)
        forward = "".join(f",hostfwd=tcp:127.0.0.1:{here}-{BOARD}:{there}"
                          for here, there in ports.items())
        command = ["qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a53", "-smp", "1",
                   "-m", str(memory_mib), "-nographic", "-monitor", "none", "-no-reboot",
                   "-kernel", KEPT / "kernel", "-initrd", KEPT / "initrd",
                   "-append", "console=ttyAMA0 loglevel=1 systemd.show_status=0 rw",
                   "-drive", f"if=none,id=disk,file={room}/disk,format=raw,cache=unsafe",
                   "-device", "virtio-blk-pci,drive=disk",
                   "-netdev", f"user,id=net{forward}",
                   "-device", "virtio-net-pci,netdev=net,romfile=",
                   "-rtc", "base=1970-01-01T00:00:10",
                   "-serial", f"unix:{room}/line,server=on,wait=on"]
        with open(ROOT / "target/systemd/board.log", "wb", buffering=0) as log, \
                subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                 stdout=log, stderr=log) as emulator:
            try:
                line = socket.socket(socket.AF_UNIX)
                deadline = time.monotonic() + 20
                while line.connect_ex(f"{room}/line") != 0:
                    if time.monotonic() > deadline or emulator.poll() is not None:
                        fail(f"the emulator does not run; see {log.name}")
                    time.sleep(0.05)
                made = Board(emulator, line, log)
                made.answer(BOOT_SECONDS)
                yield made
            finally:
                emulator.kill()
