#!/usr/bin/env python3
"""bench-get: GET of a 20 KB config on kept-alive connections, in plaintext.

The relay, nginx with a static file (one worker) and the raw loop serve the same bytes at the same
path; wrk asks each in turn. See README.md for the method.
"""

import subprocess
from rig import (Rig, arguments, fail, free_port, in_turn, machine, median, raise_open_files, ratio,
                 require, table, wrk)
from seed import CONFIG_PATH, Relay, seed

NGINX = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  sendfile on;
  {cache}
  keepalive_requests 1000000000;
  keepalive_timeout 300s;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  default_type application/json;
  server {{ listen 127.0.0.1:{port} backlog=4096; root {folder}/root; }}
}}
"""


def nginx(rig, name, document, port, cache):
    folder = rig.folder / name
    file = folder / "root" / CONFIG_PATH.split("?")[0].lstrip("/")
    file.parent.mkdir(parents=True)
    file.write_bytes(document)
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=port, cache=cache))
    return rig.start(name, ["nginx", "-p", folder, "-e", "stderr", "-c", config])


def fetch(port, token):
    """The document as this server gives it; tries until the server listens."""
    command = ["curl", "-sS", "--fail-with-body", "--max-time", "5", "--retry", "20",
               "--retry-connrefused", "--retry-delay", "1", "-H", f"Authorization: Bearer {token}",
               f"http://127.0.0.1:{port}{CONFIG_PATH}"]
    answer = subprocess.run(command, capture_output=True, check=False)
    if answer.returncode != 0:
        fail(f"port {port}: {answer.stderr.decode()}{answer.stdout[:200]}")
    return answer.stdout


def measure(program, port, token, options):
    """One round: (requests per second, CPU microseconds per request)."""
    url = f"http://127.0.0.1:{port}{CONFIG_PATH}"
    return wrk(program, options, f"Authorization: Bearer {token}", url)


def main():
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=4, help="length of a round (4)")
    parser.add_argument("--connections", type=int, default=64, help="of wrk (64)")
    parser.add_argument("--size", type=int, default=20_000, help="bytes of the seed (20000)")
    options = parser.parse_args()
    require("nginx", "wrk", "curl")
    raise_open_files(4096)
    with Rig(options) as rig:
        servers, token, document = [], "t" * 300, seed(options.size, 0)
        if rig.relay:
            relay = Relay(rig, "relay", options.size)
            token = relay.token()
            document = fetch(relay.port, token)
            servers.append((relay.program, relay.port))
        for name, cache in (("nginx", ""), ("nginx-cached", "open_file_cache max=16;")):
            port = free_port()
            servers.append((nginx(rig, name, document, port, cache), port))
        servers.append(rig.raw_loop(document))
        for program, port in servers:
            if fetch(port, token) != document:
                fail(f"{program.name} serves other bytes")
        machine(rig)
        print(f"load:    wrk -t1 -c{options.connections} -d{options.seconds}s, {options.rounds} "
              f"interleaved rounds, medians; document {len(document):,} bytes")
        rounds = {program.name: [] for program, _ in servers}
        for number in range(options.rounds):
            for program, port in in_turn(servers, number):
                rounds[program.name].append(measure(program, port, token, options))
        report(rounds)


def report(rounds):
    speed = {name: median(value[0] for value in values) for name, values in rounds.items()}
    cost = {name: median(value[1] for value in values) for name, values in rounds.items()}
    rows = []
    for name, values in rounds.items():
        spread = [value[1] for value in values]
        rows.append([
            name, f"{speed[name]:,.0f}", f"{cost[name]:.2f}",
            f"{min(spread):.2f}-{max(spread):.2f}",
            ratio(speed[name], speed["nginx"]), ratio(cost[name], cost["nginx"]),
            ratio(cost[name], cost["nginx-cached"]), ratio(cost[name], cost["raw-loop"]),
        ])
    table("GET, keep-alive, plaintext", [
        "server", "requests/s", "CPU us/request", "range", "speed/nginx", "CPU/nginx",
        "CPU/nginx-cached", "CPU/raw"], rows)


if __name__ == "__main__":
    main()
