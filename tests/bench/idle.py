#!/usr/bin/env python3
"""bench-idle: memory of the relay for each idle client, of every kind, plain and over TLS.

Each kind gets a fresh relay, so that no line inherits another's heap. See README.md.
"""

import time
from rig import Rig, arguments, machine, raise_open_files, table
from seed import CONFIG_PATH, SSE_PATH, WS_PATH, Subject

PATHS = {"sse": SSE_PATH, "ws": WS_PATH, "keepalive": CONFIG_PATH}


def settle(program):
    """Memory once it stands still for half a second, or after 5 s."""
    seen = program.memory()
    for _ in range(10):
        time.sleep(0.5)
        last, seen = seen, program.memory()
        if last == seen:
            break
    return seen


def measure(rig, options, kind, tls):
    name = f"{kind}-tls" if tls else kind
    subject = Subject(rig, options, name, tls)
    program, argv = subject.program, subject.clients(kind, PATHS[kind])
    warm, _ = rig.swarm(f"{name}-warm", [*argv, "--clients", 1])
    rig.stop(warm)
    before = settle(program)
    swarm, report = rig.swarm(f"{name}-swarm", [*argv, "--clients", options.clients])
    after = settle(program)
    rig.stop(swarm)
    left = settle(program)
    threads = program.threads()
    rig.stop(program)
    each = [(last - first) / options.clients for last, first in zip(after, before)]
    megabytes = [f"{value / 1e6:.2f}" for value in (*before, *after, left[1])]
    row = [name, *megabytes, f"{each[0]:,.0f}", f"{each[1]:,.0f}",
           f"{report['connect_us'] / 1e6:.1f}"]
    return row, threads


def main():
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=5000, help="of each kind (5000)")
    parser.add_argument("--size", type=int, default=20_000, help="bytes of the seed (20000)")
    parser.add_argument("--tls", action="store_true", help="add the same over TLS")
    options = parser.parse_args()
    raise_open_files(options.clients + 256)
    with Rig(options) as rig:
        machine(rig)
        rows, threads = [], []
        for tls in (False, True) if options.tls and rig.relay else (False,):
            for kind in PATHS:
                row, threads = measure(rig, options, kind, tls)
                rows.append(row)
        who = "relay" if rig.relay else "raw loop (no relay)"
        table(f"{who}: memory for {options.clients:,} idle clients, smaps_rollup", [
            "kind", "RSS before MB", "anon", "RSS after MB", "anon", "anon left",
            "RSS/client B", "anon/client B", "connect s"], rows)
        print(f"threads: {', '.join(threads)}")


if __name__ == "__main__":
    main()
