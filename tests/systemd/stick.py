#!/usr/bin/env python3
"""A gateway installed from a stick, without a network: then an unmodified SDK evaluates a flag.

    tests/systemd/stick.py

Lays out a stick with the packages of target/dist, boots a fresh Debian that has one cable to a
client and none to anywhere else, runs `sh install.sh` in it, and lets IBM's Python SDK ask from the
client's end of the cable. Ends with `N passed, N failed`.
"""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from rig import ROOT, boot, fail, machine, results, run

GATEWAY, CLIENT = "10.79.0.1", "10.79.0.2"
INSTALL_SECONDS = 120
# The machine waits for the client, and says what became of the relay meanwhile.
SCRIPT = """\
sh /media/stick/install.sh; echo "exit $?"
touch /installed
for turn in $(seq 600); do [ -e /asked ] && break; sleep 0.1; done
echo "state $(systemctl is-active staffetta) $(systemctl is-enabled staffetta)"
"""


@contextmanager
def cable():
    """Two network namespaces with one cable between them; their names."""
    names = [f"staffetta-{side}-{os.getpid()}" for side in ("gateway", "client")]
    try:
        for name in names:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        gateway, client = names
        run("ip", "link", "add", "cable", "netns", gateway, "type", "veth", "peer", "name", "cable",
            "netns", client)
        for name, address in zip(names, (GATEWAY, CLIENT)):
            run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "cable")
            run("ip", "-n", name, "link", "set", "cable", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False)


def sdk():
    """A Python that has the SDK; installed below target/ the first time."""
    folder = ROOT / "target/tools/sdk"
    python = folder / "bin/python"
    if not (folder / "installed").exists():
        run(sys.executable, "-m", "venv", "--clear", folder)
        run(python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r",
            ROOT / "tests/sdk/requirements.txt")
        (folder / "installed").touch()
    return python


def wait_for(file, container):
    deadline = time.monotonic() + INSTALL_SECONDS
    while not file.exists():
        if time.monotonic() > deadline or container.poll() is not None:
            return False
        time.sleep(0.1)
    return True


def ask(python, client, site):
    """What the SDK says, from the client's end of the cable."""
    environment = {
        "PATH": os.environ["PATH"], "KEY": (site / "client.key").read_text().strip(),
        "HTTPS_PROXY": f"http://{GATEWAY}:7070", "REQUESTS_CA_BUNDLE": str(site / "bundle.crt"),
    }
    try:
        command = ["ip", "netns", "exec", client, python, ROOT / "cross/ask.py"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              timeout=60, check=False)
    except subprocess.TimeoutExpired as late:
        return f"the SDK hangs: {late.stderr}"
    return done.stdout.strip() or done.stderr.strip()


def main():
    python = sdk()
    with machine() as root, cable() as (gateway, client):
        stick = root / "media/stick"
        try:
            run(ROOT / "cross/stick", stick, "gateway.test")
        except subprocess.CalledProcessError:
            fail("no stick could be laid out")
        (root / "acceptance.sh").write_text(SCRIPT)
        container = boot(root, "sh /acceptance.sh", gateway)
        answer = "not installed"
        if wait_for(root / "installed", container):
            answer = ask(python, client, stick / "site")
        (root / "asked").touch()
        text = results(root, container)
    print(text)
    print(answer)
    claims = {
        "install.sh ends well": "exit 0\n" in text,
        "it says what is served": "payments/prod" in text and "No problems." in text,
        "it says how to point an SDK at it": f"HTTPS_PROXY=http://{GATEWAY}:7070" in text,
        "the air-gap profile is the default": "active, in the air-gap profile" in text,
        "the unit is active and enabled": "state active enabled" in text,
        "the SDK evaluates a flag": answer.endswith("fast-checkout: True"),
    }
    for claim, is_so in claims.items():
        print(f"{'ok' if is_so else 'FAILED'} {claim}")
    failed = list(claims.values()).count(False)
    print(f"{len(claims) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
