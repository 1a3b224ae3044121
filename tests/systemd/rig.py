"""Debian with a real systemd, booted in a container: what the two recipes beside this file share.

A root is made once by mmdebstrap and kept as an archive below target/. Each boot has a fresh copy
of it, a network namespace without a way out, and one unit that runs a script and powers off. As
root on Debian only; installs what it needs.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ARCHIVE = ROOT / "target/systemd/bookworm-1.tar"
TOOLS = {"mmdebstrap": "mmdebstrap", "systemd-nspawn": "systemd-container", "unshare": "util-linux",
         "systemd-analyze": "systemd", "ip": "iproute2"}
# What a bare system has; Python is for the script that asks the questions.
PACKAGES = "systemd,systemd-sysv,dbus,procps,iproute2,python3"
BOOT_SECONDS = 420
UNIT = """\
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c '{command} >/results 2>&1'
ExecStopPost=/bin/systemctl poweroff --no-block
TimeoutStartSec={seconds}
[Install]
WantedBy=multi-user.target
"""


def fail(problem):
    """Ends the recipe with one line that says why."""
    sys.exit(f"systemd: {problem}")


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, **options)


def require_tools(tools=TOOLS):
    missing = sorted({package for tool, package in tools.items() if not shutil.which(tool)})
    if os.geteuid() != 0:
        fail("boots machines, and only root may")
    if not missing:
        return
    if not shutil.which("apt-get"):
        fail(f"needs {', '.join(missing)}")
    quiet = {"stdout": subprocess.DEVNULL,
             "env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}}
    run("apt-get", "update", "-qq", **quiet)
    run("apt-get", "install", "-qq", "-y", "--no-install-recommends", *missing, **quiet)


def make_archive():
    """Debian 12 with systemd, as an archive. Takes a minute, once."""
    if ARCHIVE.exists():
        return
    print(f"systemd: making {ARCHIVE.relative_to(ROOT)}", file=sys.stderr)
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    part = ARCHIVE.with_suffix(".part.tar")
    run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", "bookworm", part)
    part.rename(ARCHIVE)


def next_version(package, folder):
    """Makes `later.deb` in `folder`: the same package as a later one, for an upgrade."""
    tree, later = folder / "later", folder / "later.deb"
    run("dpkg-deb", "--raw-extract", package, tree)
    control = tree / "DEBIAN/control"
    lines = [line + "+1" if line.startswith("Version: ") else line
             for line in control.read_text().splitlines()]
    control.write_text("\n".join(lines) + "\n")
    run("dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, later,
        stdout=subprocess.DEVNULL)
    shutil.rmtree(tree)


@contextmanager
def machine():
    """The folder of a fresh root; removed in the end."""
    require_tools()
    make_archive()
    with tempfile.TemporaryDirectory(prefix="staffetta-systemd-", dir="/var/tmp") as folder:
        root = Path(folder) / "root"
        root.mkdir()
        run("tar", "--extract", "--file", ARCHIVE, "--directory", root, "--exclude=./dev/*")
        (root / "var/log/journal").mkdir(exist_ok=True)
        # Nothing in here has an update to look for.
        units = root / "etc/systemd/system"
        for unit in ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer"):
            (units / unit).symlink_to("/dev/null")
        yield root


def boot(root, command, network=None):
    """Boots `root`, runs `command` in it until it ends, and powers off; starts the container's
    process, which ends then. `network` is a namespace's name; else it has one of its own."""
    unit = root / "etc/systemd/system/acceptance.service"
    unit.write_text(UNIT.format(command=command, seconds=BOOT_SECONDS - 30))
    wanted = root / "etc/systemd/system/multi-user.target.wants"
    wanted.mkdir(exist_ok=True)
    (wanted / unit.name).symlink_to(f"../{unit.name}")
    way = f"--network-namespace-path=/run/netns/{network}" if network else "--private-network"
    # In a mount namespace of its own, so that nothing stays mounted here.
    command = ["unshare", "--mount", "--propagation", "private", "systemd-nspawn", "--quiet",
               "--register=no", "--keep-unit", way, f"--machine=staffetta-{os.getpid()}",
               "--directory", str(root), "--boot"]
    with open(root.parent / "console", "wb") as console:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=console, stderr=console)


def results(root, container):
    """What the script printed, once the machine is off."""
    try:
        container.wait(BOOT_SECONDS)
    except subprocess.TimeoutExpired:
        container.terminate()
        container.wait(30)
    for name in ("payload", "supervisor"):
        for tree in ("systemd", "unified"):
            # Left behind by the container where the host has no cgroup v2.
            group = Path(f"/sys/fs/cgroup/{tree}/{name}")
            for folder in sorted([group, *group.rglob("*/")], reverse=True):
                try:
                    folder.rmdir()
                except OSError:
                    pass
    found = root / "results"
    if not found.exists():
        console = (root.parent / "console").read_text(errors="replace")
        fail(f"the machine did not get to its script:\n{console[-3000:]}")
    return found.read_text(errors="replace")


def tally(text):
    """Prints what the script printed but for its last line, which counts: how many claims passed
    and how many failed."""
    lines = text.splitlines()
    print("\n".join(lines[:-1]))
    try:
        passed, failed = (int(word) for word in lines[-1].split()[::2])
    except (IndexError, ValueError):
        fail(f"the script broke off: {lines[-1:]}")
    return passed, failed
