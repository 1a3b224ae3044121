#!/usr/bin/env python3
"""bench-propagation: a change at the upstream, to the last of thousands of clients on loopback.

The upstream is the double of the service. Beside it stand a relay that is handed the same change
as a seed, and the raw loop: what following an upstream costs is the difference to the former.
"""

import os
from pathlib import Path
from fanout import Line, report
from rig import ROOT, Rig, arguments, fail, in_turn, machine, raise_open_files


def main():
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=2000, help="of each line (2000)")
    parser.add_argument("--size", type=int, default=20_000, help="bytes of the document (20000)")
    parser.add_argument("--kinds", default="sse,ws", help="sse, ws or both (sse,ws)")
    parser.add_argument("--double", type=Path, default=ROOT / "target/release/examples/double",
                        help="the upstream")
    options = parser.parse_args()
    if options.peers_only or not os.access(options.double, os.X_OK):
        fail(f"{options.double} is not built, or the relay is left out: nothing to measure")
    raise_open_files(options.clients * 2 + 256)
    for number, kind in enumerate(options.kinds.split(",")):
        with Rig(options) as rig:
            if number == 0:
                machine(rig)
            found = [
                Line(rig, options, kind, f"{kind} raw loop"),
                Line(rig, options, kind, f"{kind} relay, its seed", relay=True),
                Line(rig, options, kind, f"{kind} relay, its upstream", relay=True,
                     double=options.double),
            ]
            for turn in range(options.rounds + 1):
                for line in in_turn(found, turn):
                    line.round(turn)
            report(kind, found)


if __name__ == "__main__":
    main()
