#!/usr/bin/env python3
"""The package under a real systemd: scores first, then every claim of guest.py in one boot.

    tests/systemd/acceptance.py PACKAGE [WORDS]

PACKAGE is a .deb for this machine's architecture; WORDS pick the claims that contain them. Ends
with `N passed, N failed`.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from rig import ROOT, boot, fail, machine, next_version, require_tools, results, tally

# Tenths, as systemd-analyze prints them: what it may be at most.
SCORES = {"online": 11, "air-gap": 4}


def score(profile, most):
    """Whether the unit's exposure is at most that; says what it is."""
    with tempfile.TemporaryDirectory() as folder:
        units = Path(folder) / "usr/lib/systemd/system"
        drop_ins = Path(folder) / "etc/systemd/system/staffetta.service.d"
        units.mkdir(parents=True)
        drop_ins.mkdir(parents=True)
        shutil.copy(ROOT / "cross/units/staffetta.service", units)
        shutil.copy(ROOT / "cross/units/staffetta.socket", units)
        if profile == "air-gap":
            shutil.copy(ROOT / "cross/units/air-gap-unit.conf", drop_ins / "air-gap.conf")
        command = ["systemd-analyze", "security", "--no-pager", "--offline=true",
                   f"--threshold={most}", f"--root={folder}", "staffetta.service"]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    verdict = (found.stdout.strip().splitlines() or [found.stderr])[-1]
    word = "ok" if found.returncode == 0 else "FAILED"
    print(f"{word} exposure of the {profile} profile at most {most / 10}: {verdict}")
    return found.returncode == 0


def main():
    if len(sys.argv) < 2 or not Path(sys.argv[1]).exists():
        fail("which package? cross/dist x86_64 makes one")
    require_tools()
    scores = [score(profile, most) for profile, most in SCORES.items()]
    with machine() as root:
        room = root / "acceptance"
        room.mkdir()
        shutil.copy(sys.argv[1], room / "staffetta.deb")
        next_version(Path(sys.argv[1]), room)
        for name in ("inside.py", "guest.py"):
            shutil.copy(Path(__file__).with_name(name), room)
        command = " ".join(["python3 /acceptance/guest.py", *sys.argv[2:]])
        text = results(root, boot(root, command))
    passed, failed = tally(text)
    passed, failed = passed + sum(scores), failed + scores.count(False)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
