#!/usr/bin/env python3
"""bench-start: from exec to the first 200 of a config GET, with a 1 MB seed.

The relay is started again and again on the same port; a raw-loop start of the same document stands
beside it, for what a process and the probing itself cost. See README.md.
"""

import os
import socket
import time
from rig import CLIENT_CPU, Rig, arguments, fail, machine, median, table
from seed import CONFIG_PATH, KEY, Relay, json_line, seed


def first_answer(port, deadline):
    """Asks until the answer is 200; False once `deadline` has passed."""
    request = (f"GET {CONFIG_PATH} HTTP/1.1\r\nHost: localhost\r\n"
               f"Authorization: Bearer {KEY}\r\n\r\n").encode()
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as connection:
                connection.sendall(request)
                if connection.recv(12) == b"HTTP/1.1 200":
                    return True
        except OSError:
            pass
        time.sleep(0.0002)
    return False


def time_start(rig, argv, port):
    """Milliseconds from exec to the first 200."""
    start = time.monotonic()
    program = rig.start("started", argv)
    answered = first_answer(port, start + 10)
    took = (time.monotonic() - start) * 1000
    if not answered:
        fail(f"no answer: {program.log.read_text(errors='replace')[-2000:]}")
    rig.stop(program)
    return took


def main():
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1_000_000, help="bytes of the seed (1000000)")
    parser.set_defaults(rounds=11)
    options = parser.parse_args()
    if os.cpu_count() > 1:
        os.sched_setaffinity(0, {CLIENT_CPU})
    with Rig(options) as rig:
        commands = {}
        if rig.relay:
            relay = Relay(rig, "relay", options.size)
            rig.stop(relay.program)
            config = relay.config.read_bytes()
            listen = json_line({"listen": ["127.0.0.1:0"]})[1:-1]
            fixed = json_line({"listen": [f"127.0.0.1:{relay.port}"]})[1:-1]
            relay.config.write_bytes(config.replace(listen, fixed, 1))
            commands["relay"] = (relay.argv, relay.port)
        raw, port = rig.raw_loop(seed(options.size, 0))
        rig.stop(raw)
        commands["raw loop"] = ([options.tools / "raw_loop", "--listen", f"127.0.0.1:{port}",
                                 "--document", rig.folder / "raw-loop.json"], port)
        machine(rig)
        times = {name: [] for name in commands}
        for _ in range(options.rounds):
            for name, (argv, port) in commands.items():
                times[name].append(time_start(rig, argv, port))
        rows = [[name, f"{median(values):.1f}", f"{min(values):.1f}", f"{max(values):.1f}"]
                for name, values in times.items()]
        table(f"exec to first 200, seed of {options.size:,} bytes, {options.rounds} starts",
              ["program", "median ms", "min", "max"], rows)


if __name__ == "__main__":
    main()
