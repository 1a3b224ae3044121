#!/usr/bin/env python3
"""bench-fanout: one change of a 20 KB document to thousands of clients on loopback.

Each line of the table is a server with a swarm of its own; all run at once and take turns, one
round each, so that every line sees the same machine. See README.md for the method.
"""

from rig import (Rig, arguments, fail, in_turn, machine, median, raise_open_files, ratio,
                 table)
from peers import BROKERS
from seed import ADMIN_TOKEN, CONFIG_PATH, SSE_PATH, WS_PATH, Double, Relay, seed

PATHS = {"sse": SSE_PATH, "ws": WS_PATH}


class Line:
    """One server, its swarm and what they measured."""

    def __init__(self, rig, options, kind, name, *, relay=False, broker=None, tls=False, stuck=0,
                 double=None):
        self.name, self.kind, self.rounds, self.publishes = name, kind, [], None
        label = name.replace(" ", "-")
        # Streams, their refetchers, and room for the reload.
        connections = options.clients * 2 + stuck + 64
        if broker:
            self.begin_broker(rig, options, label, broker)
            return
        upstream = None
        if double:
            upstream = Double(rig, double, f"{label}-upstream", seed(options.size, 0))
        if relay:
            self.relay = Relay(rig, label, options.size, tls, connections, upstream)
            self.server, port, admin = self.relay.program, self.relay.port, self.relay.admin_port
            token = self.relay.token()
        else:
            self.relay, token = None, "t" * 300
            self.server, port = rig.raw_loop(seed(options.size, 0), label)
            admin = port
        argv = ["--kind", kind, "--clients", options.clients, "--stuck", stuck,
                "--to", f"127.0.0.1:{port}", "--path", PATHS[kind],
                "--header", f"Authorization: Bearer {token}",
                "--admin", f"127.0.0.1:{admin}", "--admin-token", ADMIN_TOKEN,
                "--seconds-max", 900]
        if kind == "ws":
            argv += ["--refetch", CONFIG_PATH]
        if upstream:
            argv += ["--put", f"127.0.0.1:{upstream.control_port}", "--put-path", Double.PUT_PATH]
        elif relay:
            argv += ["--seed", self.relay.seed]
        if tls:
            argv += ["--tls-ca", self.relay.ca, "--tls-name", "localhost"]
        self.begin_swarm(rig, label, argv)

    def begin_broker(self, rig, options, label, broker):
        connections = options.clients + 1024
        peer = broker(rig, label, seed(options.size, 0), connections)
        self.relay, self.server = None, peer.program
        self.publishes = rig.folder / f"{label}.message"
        self.size_bytes = options.size
        self.begin_swarm(rig, label, [
            "--kind", peer.kind, "--clients", options.clients, "--to", f"127.0.0.1:{peer.port}",
            "--seconds-max", 900, *peer.arguments])

    def begin_swarm(self, rig, label, argv):
        self.swarm, report = rig.swarm(f"{label}-swarm", argv)
        self.connect_ms = report["connect_us"] / 1000

    def round(self, number):
        """One change to all clients; the first one warms up and is not kept."""
        command = "round"
        if self.relay:
            command += f" {self.relay.next_seed(number)}"
        if self.publishes:
            self.publishes.write_bytes(seed(self.size_bytes, number + 1))
            command += f" {self.publishes}"
        before = self.server.cpu_ns()
        self.swarm.tell(command)
        report = self.swarm.hear()
        report["cpu_us"] = (self.server.cpu_ns() - before) / 1000
        wanted = report["clients"]
        refetched = report["refetched"] if self.kind == "ws" else wanted
        if (report["changed"], refetched) != (wanted, wanted) or report["ended"]:
            fail(f"{self.name}: not every client has the change: {report}")
        if number > 0:
            self.rounds.append(report)

    def median_ms(self, *keys):
        """Median over the rounds of the first key, less the second if there is one."""
        return median(value[keys[0]] - sum(value[key] for key in keys[1:])
                      for value in self.rounds) / 1000

    def most(self, key):
        return max(value[key] for value in self.rounds)


def lines(rig, options, kind):
    found = [Line(rig, options, kind, f"{kind} raw loop", relay=False)]
    if rig.relay:
        found.append(Line(rig, options, kind, f"{kind} relay", relay=True))
    if rig.relay and options.tls:
        found.append(Line(rig, options, kind, f"{kind} relay TLS", relay=True, tls=True))
    if options.stuck:
        stuck = {"relay": bool(rig.relay), "stuck": options.stuck}
        who = "relay" if rig.relay else "raw loop"
        found.append(Line(rig, options, kind, f"{kind} {who} {options.stuck} stuck", **stuck))
    for name in options.brokers.split(",") if kind == "sse" and options.brokers else []:
        if name not in BROKERS:
            fail(f"no broker {name!r}; there is: {', '.join(BROKERS)}")
        found.append(Line(rig, options, kind, name, broker=BROKERS[name]))
    return found


def report(kind, found):
    raw = found[0]
    header = ["line", "change ms", "range", "/raw", "first-last ms", "/raw", "CPU ms", "/raw",
              "anon MB"]
    if kind == "ws":
        header[-1:-1] = ["refetched ms", "/raw"]
    rows = []
    for line in found:
        last, span = line.median_ms("last_us"), line.median_ms("last_us", "first_us")
        cpu, refetch = line.median_ms("cpu_us"), line.median_ms("refetch_us")
        spread = [value["last_us"] / 1000 for value in line.rounds]
        row = [line.name, f"{last:.1f}", f"{min(spread):.1f}-{max(spread):.1f}",
               ratio(last, raw.median_ms("last_us")), f"{span:.1f}",
               ratio(span, raw.median_ms("last_us", "first_us")), f"{cpu:.1f}",
               ratio(cpu, raw.median_ms("cpu_us")), f"{line.server.memory()[1] / 1e6:.1f}"]
        if kind == "ws":
            row[-1:-1] = [f"{refetch:.1f}", ratio(refetch, raw.median_ms("refetch_us"))]
        rows.append(row)
    clients = found[0].rounds[0]["clients"]
    table(f"{kind}: one change to {clients:,} clients, {len(raw.rounds)} rounds, medians",
          header, rows)
    for line in found:
        if line.most("extra"):
            print(f"note: {line.name}: up to {line.most('extra')} clients saw a change twice")
    print("connected in: " + ", ".join(f"{line.name} {line.connect_ms:,.0f} ms" for line in found))


def main():
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=2000, help="of each line (2000)")
    parser.add_argument("--size", type=int, default=20_000, help="bytes of the seed (20000)")
    parser.add_argument("--kinds", default="sse,ws", help="sse, ws or both (sse,ws)")
    parser.add_argument("--tls", action="store_true", help="add a line over TLS")
    parser.add_argument("--stuck", type=int, default=0, help="add a line with N stuck clients")
    parser.add_argument("--brokers", default="nchan,mosquitto",
                        help="with event streams, in the same rounds (nchan,mosquitto)")
    options = parser.parse_args()
    raise_open_files(options.clients * 2 + options.stuck + 256)
    for kind in options.kinds.split(","):
        with Rig(options) as rig:
            if kind == "sse":
                machine(rig)
            found = lines(rig, options, kind)
            for number in range(options.rounds + 1):
                for line in in_turn(found, number):
                    line.round(number)
            report(kind, found)


if __name__ == "__main__":
    main()
