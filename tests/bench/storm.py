#!/usr/bin/env python3
"""bench-storm: a whole fleet connects at once, and one more client keeps asking.

The swarm opens all its connections without waiting for any to be set up. Beside it one kept-alive
plaintext client asks for the config every few milliseconds: its slowest answer is how long the
server's only thread was away. See README.md.
"""

import os
import re
import socket
import threading
import time
from rig import CLIENT_CPU, Rig, arguments, fail, machine, median, raise_open_files, table
from seed import CONFIG_PATH, SSE_PATH, Subject

INTERVAL_S = 0.005


class Probe(threading.Thread):
    """Asks again and again on one connection; keeps the milliseconds of each answer."""

    def __init__(self, port, token):
        super().__init__(daemon=True)
        self.request = (f"GET {CONFIG_PATH} HTTP/1.1\r\nHost: localhost\r\n"
                        f"Authorization: Bearer {token}\r\n\r\n").encode()
        self.connection = socket.create_connection(("127.0.0.1", port), 5)
        self.over = threading.Event()
        self.times_ms = []
        self.error = None

    def run(self):
        try:
            while not self.over.is_set() and len(self.times_ms) < 100_000:
                start = time.monotonic()
                self.connection.sendall(self.request)
                self.read_answer()
                self.times_ms.append((time.monotonic() - start) * 1000)
                self.over.wait(INTERVAL_S)
        except OSError as error:
            self.error = error
        finally:
            self.connection.close()

    def read_answer(self):
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.receive()
        head, body = answer.split(b"\r\n\r\n", 1)
        left = int(re.search(rb"(?i)content-length: *(\d+)", head)[1]) - len(body)
        while left > 0:
            left -= len(self.receive())

    def receive(self):
        piece = self.connection.recv(65536)
        if not piece:
            raise OSError("closed")
        return piece

    def stop(self):
        self.over.set()
        self.join(10)
        if self.error or not self.times_ms:
            fail(f"the probe failed: {self.error}")
        return self.times_ms


def measure(rig, options, name, tls):
    """One storm on a fresh server: (seconds until all are set up, CPU seconds, probe times)."""
    subject = Subject(rig, options, name, tls)
    program, argv = subject.program, subject.clients("sse", SSE_PATH)
    argv += ["--clients", options.clients, "--connecting-max", options.clients]
    probe = Probe(subject.port, subject.token)
    probe.start()
    before = program.cpu_ns()
    swarm, report = rig.swarm(f"{name}-swarm", argv)
    spent = program.cpu_ns() - before
    times_ms = probe.stop()
    rig.stop(swarm)
    rig.stop(program)
    return report["connect_us"] / 1e6, spent / 1e9, times_ms


def main():
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=2000, help="of each storm (2000)")
    parser.add_argument("--size", type=int, default=20_000, help="bytes of the seed (20000)")
    parser.set_defaults(rounds=5)
    options = parser.parse_args()
    raise_open_files(options.clients + 256)
    if os.cpu_count() > 1:
        os.sched_setaffinity(0, {CLIENT_CPU})
    with Rig(options) as rig:
        machine(rig)
        kinds = {"relay TLS": True, "relay plain": False} if rig.relay else {"raw loop": False}
        found = {name: [] for name in kinds}
        for number in range(options.rounds):
            for name, tls in kinds.items():
                label = f"{name.replace(' ', '-')}-{number}"
                found[name].append(measure(rig, options, label, tls))
        rows = [[name, f"{median(value[0] for value in values):.2f}",
                 f"{median(value[1] for value in values):.2f}",
                 f"{median(median(value[2]) for value in values):.2f}",
                 f"{median(max(value[2]) for value in values):.1f}",
                 f"{max(max(value[2]) for value in values):.1f}"]
                for name, values in found.items()]
        table(f"{options.clients:,} SSE clients at once, {options.rounds} storms, medians", [
            "server", "all back s", "CPU s", "probe ms", "slowest ms", "slowest of all ms"], rows)


if __name__ == "__main__":
    main()
