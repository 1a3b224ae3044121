#!/usr/bin/env python3
"""A gateway installed from a stick, without a network: then an unmodified SDK evaluates a flag.

    tests/systemd/stick.py [WORDS]

Lays out a stick with the packages of target/dist, boots a fresh Debian that has one cable to a
client and none to anywhere else, runs `sh install.sh` in it, and lets IBM's Python SDK ask from the
client's end of the cable. Then tries every claim of installer.py there, or those that contain
WORDS. Ends with `N passed, N failed`.
"""

import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from rig import ROOT, boot, fail, machine, next_version, results, run, tally

GATEWAY, CLIENT = "10.79.0.1", "10.79.0.2"
INSTALL_SECONDS = 120
# The machine waits for the client, and says what became of the relay meanwhile.
SCRIPT = """\
sh /media/stick/install.sh; echo "exit $?"
touch /installed
for turn in $(seq 600); do [ -e /asked ] && break; sleep 0.1; done
echo "state $(systemctl is-active staffetta) $(systemctl is-enabled staffetta)"
echo ====
GATEWAY={gateway} python3 /acceptance/installer.py {words}
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


def lay_out(stick, room):
    """A stick for this machine's architecture. Its CA does not outlive the test."""
    try:
        run(ROOT / "cross/stick", stick, "gateway.test",
            env=os.environ | {"XDG_DATA_HOME": str(room)})
    except subprocess.CalledProcessError:
        fail("no stick could be laid out")
    for folder in (stick / "packages").iterdir():
        if not folder.name.startswith(os.uname().machine):
            shutil.rmtree(folder)
    sums = stick / "SHA256SUMS"
    lines = [line for line in sums.read_text().splitlines() if (stick / line[66:]).exists()]
    sums.write_text("\n".join(lines) + "\n")


def main():
    python = sdk()
    with machine() as root, cable() as (gateway, client):
        stick, room = root / "media/stick", root / "acceptance"
        lay_out(stick, root.parent)
        shutil.copytree(stick, room / "stick")
        next_version(next(stick.glob("packages/*/*.deb")), room)
        for name in ("inside.py", "installer.py"):
            shutil.copy(Path(__file__).with_name(name), room)
        script = SCRIPT.format(gateway=GATEWAY, words=" ".join(sys.argv[1:]))
        (room / "acceptance.sh").write_text(script)
        container = boot(root, "sh /acceptance/acceptance.sh", gateway)
        answer = "not installed"
        if wait_for(root / "installed", container):
            answer = ask(python, client, stick / "site")
        (root / "asked").touch()
        text = results(root, container)
    text, _, of_installer = text.partition("====\n")
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
    passed, failed = tally(of_installer)
    failed += list(claims.values()).count(False)
    passed += list(claims.values()).count(True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
