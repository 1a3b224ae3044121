"""What the benchmark recipes share: processes, pinning, counters, tables.

A `Rig` owns a temporary folder and every process that is started through it; leaving it, also by
an exception or SIGTERM, ends each of them by its own id. Servers run on the first CPU and clients
on the second, where there are two. All traffic stays on loopback.
"""

import argparse
import json
import os
import platform
import re
import resource
import select
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVER_CPU = 0
CLIENT_CPU = 1
NCHAN_MODULE = Path("/usr/lib/nginx/modules/ngx_nchan_module.so")


def arguments(description):
    """The options that every recipe has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--relay", type=Path, default=ROOT / "target/release/staffetta",
                        help="the binary to measure")
    parser.add_argument("--tools", type=Path, default=ROOT / "target/bench/release",
                        help="where swarm and raw_loop are")
    parser.add_argument("--peers-only", action="store_true", help="leave the relay out")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds (7)")
    return parser


def fail(problem):
    """Ends the recipe with one line that says why."""
    sys.exit(f"bench: {problem}")


def require(*programs):
    """Installs Debian's packages of what is missing. As root only; else says what to install."""
    packages = {"nginx": "nginx-light", "wrk": "wrk", "curl": "curl", "haproxy": "haproxy",
                "mosquitto": "mosquitto",
                "nchan": "libnginx-mod-nchan"}
    there = {"nchan": NCHAN_MODULE.exists()}
    missing = [packages[program] for program in programs
               if not there.get(program, shutil.which(program))]
    if not missing:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        fail(f"needs {' and '.join(missing)}; on Debian: sudo {' '.join(command)}")
    print(f"installing {' '.join(missing)}", file=sys.stderr)
    quiet = {"stdout": subprocess.DEVNULL, "env": {**os.environ, "RUNLEVEL": "1"}}
    if subprocess.run(command, **quiet).returncode != 0:
        subprocess.run(["apt-get", "update"], check=True, **quiet)
        subprocess.run(command, check=True, **quiet)


def in_turn(items, number):
    """The items of round `number`: each round begins with another one."""
    first = number % len(items)
    return items[first:] + items[:first]


def wrk(program, options, header, url):
    """One round of requests for `url`: (requests per second, CPU microseconds per request)."""
    pinned = ["taskset", "-c", str(CLIENT_CPU)] if os.cpu_count() > 1 else []
    command = [*pinned, "wrk", "-t1", f"-c{options.connections}", f"-d{options.seconds}s",
               "-H", header, url]
    before = program.cpu_ns()
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    spent = program.cpu_ns() - before
    if "Non-2xx" in output or "Socket errors" in output:
        fail(f"{program.name}: {output}")
    requests = int(re.search(r"(\d+) requests in", output)[1])
    per_second = float(re.search(r"Requests/sec:\s+([\d.]+)", output)[1])
    return per_second, spent / requests / 1000


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def raise_open_files(needed):
    """Raises the soft limit on open files as far as it goes; children inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        if os.geteuid() != 0:
            fail(f"needs {needed} open files, and the hard limit is {hard} (ulimit -Hn)")
        hard = needed
    wanted = hard if hard != resource.RLIM_INFINITY else needed
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Program:
    """A running program, its log and its counters."""

    def __init__(self, name, argv, cpu, folder, talks):
        # Should this recipe be killed outright, its servers are told to end as well.
        pinned = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        pinned += ["taskset", "-c", str(cpu)] if os.cpu_count() > 1 else []
        self.name = name
        self.log = folder / f"{name}.log"
        self.unread = b""
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*pinned, *map(str, argv)],
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE if talks else log,
                stderr=log,
            )

    def wait_for(self, pattern, seconds=30):
        """The first match of `pattern` in the log."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            text = self.log.read_text(errors="replace")
            if found := re.search(pattern, text, re.MULTILINE):
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        fail(f"{self.name} never said {pattern!r}:\n{self.log.read_text(errors='replace')[-2000:]}")

    def tell(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def hear(self, seconds=150):
        """One line of the output, as a dict of its `key=number` words."""
        deadline = time.monotonic() + seconds
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self.unread:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                fail(f"{self.name} is silent")
            piece = os.read(descriptor, 65536)
            if not piece:
                fail(f"{self.name} ended: {self.log.read_text(errors='replace')[-2000:]}")
            self.unread += piece
        line, self.unread = self.unread.split(b"\n", 1)
        words = (word.split("=", 1) for word in line.decode().split() if "=" in word)
        return {key: int(value) if value.isdigit() else value for key, value in words}

    def pids(self):
        """This process and its children (nginx: master and worker)."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def cpu_ns(self):
        """CPU time of all its living threads so far, in nanoseconds."""
        total = 0
        for pid in self.pids():
            for task in Path(f"/proc/{pid}/task").iterdir():
                total += task_cpu_ns(task)
        return total

    def memory(self):
        """(RSS, anonymous) in bytes."""
        text = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        kib = dict(re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE))
        return int(kib["Rss"]) * 1024, int(kib["Anonymous"]) * 1024

    def threads(self):
        """Names of its threads."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sorted((task / "comm").read_text().strip() for task in tasks)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()


def task_cpu_ns(task):
    """schedstat counts nanoseconds; stat, where the kernel has no schedstat, ticks of 10 ms."""
    try:
        return int((task / "schedstat").read_text().split()[0])
    except FileNotFoundError:
        fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Rig:
    """The temporary folder and the processes of one recipe."""

    def __init__(self, options):
        self.options = options
        self.programs = []
        if not os.access(options.tools / "swarm", os.X_OK):
            fail(f"{options.tools} has no swarm; build tests/bench first (see its README)")
        self.relay = None if options.peers_only else options.relay
        if self.relay and not os.access(self.relay, os.X_OK):
            fail(f"{self.relay} is not built (--peers-only leaves it out)")

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="staffetta-bench-"))
        self.folder.chmod(0o755)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: sys.exit(128 + number))
        return self

    def __exit__(self, *_):
        for program in reversed(self.programs):
            program.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, name, argv, cpu=SERVER_CPU, talks=False):
        program = Program(name, argv, cpu, self.folder, talks)
        self.programs.append(program)
        return program

    def stop(self, program):
        self.programs.remove(program)
        program.stop()

    def swarm(self, name, argv):
        """Starts a swarm and waits until all its clients are set up; (program, its report)."""
        argv = [self.options.tools / "swarm", *argv]
        swarm = self.start(name, argv, CLIENT_CPU, talks=True)
        return swarm, swarm.hear()

    def raw_loop(self, document, name="raw-loop"):
        """Starts the raw loop; (program, port)."""
        path = self.folder / f"{name}.json"
        path.write_bytes(document)
        argv = [self.options.tools / "raw_loop", "--listen", "127.0.0.1:0", "--document", path]
        program = self.start(name, argv)
        found = program.wait_for(r"listening on 127\.0\.0\.1:(\d+)")
        return program, int(found[1])


def machine(rig):
    """What the figures depend on."""
    cpu = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=False)
    print(f"machine: {cpu[1] if cpu else platform.machine()}, {os.cpu_count()} CPUs, "
          f"Linux {platform.release()}, load {os.getloadavg()[0]:.1f}")
    print(f"build:   {rustc.stdout.strip() or 'rustc unknown'}; {build(rig.relay)}; "
          f"peers: {rig.options.tools.name}, opt-level 3")


def build(relay):
    """Profile and linkage of the relay, as its file tells them."""
    if not relay:
        return "no relay"
    content = relay.read_bytes()
    profile = "release profile (see Cargo.toml)" if relay.parent.name != "debug" else "DEBUG BUILD"
    linkage = "dynamic (glibc malloc)" if has_interpreter(content) else "static musl"
    return f"relay: {profile}, {linkage}, {len(content):,} bytes"


def has_interpreter(elf):
    """True if the ELF file names a dynamic loader."""
    wide = elf[4] == 2
    offset, = struct.unpack_from("<Q" if wide else "<I", elf, 32 if wide else 28)
    size, count = struct.unpack_from("<HH", elf, 54 if wide else 42)
    types = (struct.unpack_from("<I", elf, offset + size * at)[0] for at in range(count))
    return 3 in types


def table(title, header, rows):
    """Prints aligned columns; the first to the left, the others to the right."""
    cells = [header, *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[at]) for row in cells) for at in range(len(header))]
    print(f"\n{title}")
    for number, row in enumerate(cells):
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))
        print("  ".join([row[0].ljust(widths[0]), *rest]).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))


def median(values):
    return statistics.median(values)


def ratio(value, of):
    return f"{value / of:.2f}" if of else "-"


def json_line(value):
    return json.dumps(value, separators=(",", ":")).encode()
