#!/usr/bin/env python3
"""bench-proxy: forwarding to two servers with a cookie, in plaintext.

The relay and HAProxy (one thread, a cookie for each server, connections reused) stand before the
same two servers, which are nginx workers with small files in memory; wrk asks through each in turn.
See README.md for the method.
"""

import re
import subprocess
from get import NGINX
from idle import settle
from rig import (CLIENT_CPU, Rig, arguments, fail, free_port, in_turn, json_line, machine, median,
                 raise_open_files, ratio, require, table, wrk)

COOKIE = "Bench.Affinity"
SIZES = {"1 KB": 1_000, "20 KB": 20_000}
HAPROXY = """
global
  nbthread 1
  maxconn 4096
defaults
  mode http
  option http-keep-alive
  http-reuse always
  timeout connect 5s
  timeout client 100s
  timeout server 100s
frontend all
  bind 127.0.0.1:{port} backlog 4096
  default_backend servers
backend servers
  balance roundrobin
  cookie {cookie} insert indirect nocache
  server a 127.0.0.1:{ports[0]} cookie a
  server b 127.0.0.1:{ports[1]} cookie b
"""


def server(rig, name):
    """One server behind the proxies; its port. It shares its CPU with the clients."""
    folder, port = rig.folder / name, free_port()
    (folder / "root").mkdir(parents=True)
    for label, size in SIZES.items():
        (folder / "root" / path(label).lstrip("/")).write_bytes(b"x" * size)
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=port, cache="open_file_cache max=16;"))
    rig.start(name, ["nginx", "-p", folder, "-e", "stderr", "-c", config], CLIENT_CPU)
    return port


def path(label):
    return "/" + label.replace(" ", "")


def haproxy(rig, ports, name="haproxy"):
    port, config = free_port(), rig.folder / f"{name}.cfg"
    config.write_text(HAPROXY.format(port=port, ports=ports, cookie=COOKIE))
    return rig.start(name, ["haproxy", "-db", "-f", config]), port


def relay(rig, ports, name="relay"):
    destinations = {node: {"Address": f"http://127.0.0.1:{port}"}
                    for node, port in zip("ab", ports)}
    config = {
        "listen": ["127.0.0.1:0"],
        "admin": {"listen": f"unix:{rig.folder}/{name}.sock"},
        "instance": {"guid": "bench"},
        "slots": [],
        "limits": {"connections": 4096, "memory": "1GiB"},
        "log": {"format": "plain"},
        "ReverseProxy": {
            "Routes": {"all": {"ClusterId": "servers", "Match": {"Path": "/{**rest}"}}},
            "Clusters": {"servers": {
                "LoadBalancingPolicy": "RoundRobin",
                "SessionAffinity": {"Enabled": True, "AffinityKeyName": COOKIE},
                "Destinations": destinations,
            }},
        },
    }
    file = rig.folder / f"{name}.json"
    file.write_bytes(json_line(config))
    program = rig.start(name, [rig.relay, "run", "--config", file])
    return program, int(program.wait_for(r"listening on 127\.0\.0\.1:(\d+) \(SDK")[1])


def cookie_of(port):
    """The cookie of a first answer; tries until the proxy and its servers listen."""
    command = ["curl", "-sS", "--fail", "--max-time", "5", "--retry", "20", "--retry-all-errors",
               "--retry-delay", "1", "-D", "-", "-o", "/dev/null",
               f"http://127.0.0.1:{port}{path('1 KB')}"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(rf"(?im)^set-cookie: ({re.escape(COOKIE)}=[^;\s]+)", answer.stdout)
    return found[1] if found else fail(f"port {port}: no cookie: {answer.stdout}{answer.stderr}")


def measure(program, port, label, options):
    """One round: (requests per second, CPU microseconds per request)."""
    url = f"http://127.0.0.1:{port}{path(label)}"
    return wrk(program, options, f"Cookie: {cookie_of(port)}", url)


def weigh(rig, start, ports, options):
    """Resident bytes for each client that has been answered and waits, on a fresh proxy."""
    program, port = start(rig, ports, "idle")
    argv = ["--kind", "keepalive", "--to", f"127.0.0.1:{port}", "--path", path("1 KB"),
            "--header", f"Cookie: {cookie_of(port)}"]
    before = settle(program)
    swarm, _ = rig.swarm("idle-swarm", [*argv, "--clients", options.clients])
    after = settle(program)
    rig.stop(swarm)
    rig.stop(program)
    return (after[0] - before[0]) / options.clients


def main():
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=4, help="length of a round (4)")
    parser.add_argument("--connections", type=int, default=64, help="of wrk (64)")
    parser.add_argument("--clients", type=int, default=2000, help="that idle (2000)")
    options = parser.parse_args()
    require("nginx", "wrk", "curl", "haproxy")
    raise_open_files(8400)
    with Rig(options) as rig:
        ports = [server(rig, "server-a"), server(rig, "server-b")]
        starts = {"haproxy": haproxy, **({"relay": relay} if rig.relay else {})}
        proxies = [start(rig, ports) for start in starts.values()]
        machine(rig)
        print(f"load:    wrk -t1 -c{options.connections} -d{options.seconds}s, {options.rounds} "
              "interleaved rounds, medians; two nginx workers behind, on the clients' CPU")
        for label in SIZES:
            rounds = {program.name: [] for program, _ in proxies}
            for number in range(options.rounds):
                for program, port in in_turn(proxies, number):
                    rounds[program.name].append(measure(program, port, label, options))
            report(label, rounds)
        memory = {name: weigh(rig, start, ports, options) for name, start in starts.items()}
        table(f"{options.clients} idle clients", ["proxy", "bytes each", "of haproxy"],
              [[name, f"{each:,.0f}", ratio(each, memory["haproxy"])]
               for name, each in memory.items()])


def report(label, rounds):
    speed = {name: median(value[0] for value in values) for name, values in rounds.items()}
    cost = {name: median(value[1] for value in values) for name, values in rounds.items()}
    rows = []
    for name, values in rounds.items():
        spread = [value[1] for value in values]
        rows.append([name, f"{speed[name]:,.0f}", f"{cost[name]:.2f}",
                     f"{min(spread):.2f}-{max(spread):.2f}",
                     ratio(speed[name], speed["haproxy"]), ratio(cost[name], cost["haproxy"])])
    table(f"{label} through a proxy, cookie, keep-alive, plaintext",
          ["proxy", "requests/s", "CPU us/request", "range", "speed/haproxy", "CPU/haproxy"], rows)


if __name__ == "__main__":
    main()
