#!/usr/bin/env python3
"""demo-failover: a primary, its backup, the relay and IBM's Python SDK, for about a minute.

Two doubles play the service. The primary is killed and comes back; what the upstreams, the relay
and the application see of it is printed as it happens. All ends by itself, or by Ctrl-C.
"""

import argparse
import json
import os
import re
import signal
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUID = "11111111-2222-3333-4444-555555555555"
KEY = "demo-key"
SLOT = ("payments", "prod")
FLAG = "fast-checkout"
PATIENCE_S = 60


class Stage:
    """Everything that was started, and the one voice in which all of it speaks."""

    def __init__(self):
        self.start = time.monotonic()
        self.programs = []
        self.lock = threading.Lock()

    def say(self, who, what):
        with self.lock:
            print(f"{time.monotonic() - self.start:6.2f} s  {who:<8} {what}", flush=True)

    def launch(self, argv, **options):
        # Should this be killed outright, what it started is told to end as well.
        guard = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        program = subprocess.Popen([*guard, *map(str, argv)], text=True, **options)
        self.programs.append(program)
        return program

    def close(self):
        for program in reversed(self.programs):
            program.terminate()
        for program in reversed(self.programs):
            try:
                program.wait(10)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()


class Double:
    """One upstream."""

    def __init__(self, stage, program, node):
        self.stage, self.node = stage, node
        argv = [program, "--node", node, "--api-key", KEY, "--guid", GUID]
        started = stage.launch(argv, stdout=subprocess.PIPE)
        ports = [re.search(r":(\d+)$", started.stdout.readline().strip())[1] for _ in "12"]
        self.url, self.control = (f"http://127.0.0.1:{port}" for port in ports)

    def order(self, method, path, body=b""):
        request = urllib.request.Request(self.control + path, body or None, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read())

    def serve(self, document, tells):
        told = self.order("PUT", f"/documents/{SLOT[0]}/{SLOT[1]}?notify={int(tells)}", document)
        if tells:
            self.stage.say(self.node, f"has a new document, and told {told['told']} sockets")

    def behave(self, orders):
        self.order("POST", "/behave", json.dumps(orders).encode())

    def wait_for_sockets(self, count):
        deadline, counts = time.monotonic() + PATIENCE_S, self.order("GET", "/counts")
        while counts["sockets_open"] != count:
            if time.monotonic() > deadline:
                sys.exit(f"{self.node}: {counts['sockets_open']} sockets instead of {count}")
            counts = self.order("GET", f"/counts?after={counts['changes']}")
        self.stage.say(self.node, f"{count} sockets are open")


class Application:
    """A process with the SDK in it, told nothing of relays but its proxy and its authority."""

    def __init__(self, stage, python, proxy, authority, seed):
        self.stage, self.values = stage, []
        self.news = threading.Condition()
        options = {"region": "us-south", "guid": GUID, "key": KEY, "seed": str(seed),
                   "collection": SLOT[0], "environment": SLOT[1]}
        environment = {"PATH": os.environ["PATH"], "HTTPS_PROXY": proxy,
                       "REQUESTS_CA_BUNDLE": str(authority)}
        self.program = stage.launch([python, ROOT / "tests/sdk/app.py", json.dumps(options)],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, env=environment)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        words = {"loaded": "has its configuration", "update": "its update listener was called"}
        for line in self.program.stdout:
            said = json.loads(line)
            if said["event"] in words:
                self.stage.say("SDK", words[said["event"]])
                self.program.stdin.write("evaluate\n")
                self.program.stdin.flush()
            if said["event"] == "values":
                value = said["features"][FLAG]["stranger"]
                self.stage.say("SDK", f"{FLAG} is {value}")
                with self.news:
                    self.values.append(value)
                    self.news.notify()

    def wait_for(self, value):
        """Waits until the flag was last seen with this value."""
        seen = lambda: self.values and self.values[-1] == value  # noqa: E731
        with self.news:
            if not self.news.wait_for(seen, PATIENCE_S):
                sys.exit(f"the application never saw {value}, only {self.values}")


def document(is_enabled):
    """The demo's, with the flag on or off for everybody."""
    document = json.loads((ROOT / "seeds/demo.json").read_text())
    for environment in document["environments"]:
        for feature in environment["features"]:
            if feature["feature_id"] == FLAG:
                feature.update(enabled=is_enabled, rollout_percentage=100)
    return json.dumps(document).encode()


def relay(stage, program, folder, primary, backup):
    """Starts the relay, and passes on what it logs; (proxy, authority)."""
    subprocess.run([program, "cert", "--dir", folder], check=True, stdout=subprocess.DEVNULL)
    upstream = lambda double: {"url": double.url, "api_key": KEY}  # noqa: E731
    config = {
        "listen": ["127.0.0.1:0"],
        "admin": {"listen": [f"unix:{folder}/admin.sock"]},
        "tls": {"cert": f"{folder}/relay.crt", "key": f"{folder}/relay.key"},
        "state_dir": f"{folder}/state",
        "instance": {"guid": GUID, "region": "us-south"},
        "client_keys": [{"id": "demo", "key": KEY}],
        "slots": [{"collection": SLOT[0], "environment": SLOT[1]}],
        # A primary is tried again every 15 s unless the config says otherwise.
        "upstream": {"primary": upstream(primary), "backup": upstream(backup),
                     "retry_primary_s": 5},
    }
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    started = stage.launch([program, "run", "--config", path], stderr=subprocess.PIPE)
    listening, ports = threading.Event(), []

    def listen():
        for line in started.stderr:
            level, _, text = line.rstrip().partition(" ")[2].lstrip().partition(" ")
            stage.say("relay", text.lstrip() if level == "info" else f"{level}: {text.lstrip()}")
            if found := re.search(r"listening on (127\.0\.0\.1:\d+) \(SDK", line):
                ports.append(found[1])
                listening.set()

    threading.Thread(target=listen, daemon=True).start()
    if not listening.wait(PATIENCE_S):
        sys.exit("the relay does not listen")
    return f"http://{ports[0]}", folder / "bundle.crt"


def sdk():
    """An interpreter with the SDK, installed once from the hashes that the tests pin."""
    folder = ROOT / "target/demo/sdk"
    python, listed = folder / "bin/python", ROOT / "tests/sdk/requirements.txt"
    installed = folder / "installed.txt"
    if not installed.exists() or installed.read_text() != listed.read_text():
        print(f"installing IBM's SDK into {folder}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                        "--require-hashes", "--only-binary", ":all:", "--requirement", listed],
                       check=True)
        installed.write_text(listed.read_text())
    return python


def play(stage, options, folder):
    primary, backup = (Double(stage, options.double, node) for node in ("primary", "backup"))
    for double in (primary, backup):
        double.serve(document(True), tells=False)
    proxy, authority = relay(stage, options.relay, folder, primary, backup)
    primary.wait_for_sockets(1)
    application = Application(stage, options.python or sdk(), proxy, authority,
                              ROOT / "seeds/demo.json")
    application.wait_for(True)

    stage.say("---", "somebody switches the flag off")
    backup.serve(document(False), tells=False)
    primary.serve(document(False), tells=True)
    application.wait_for(False)

    stage.say("---", "the primary is killed")
    primary.behave({"tcp": {"refuse": True}})
    primary.order("POST", "/kill_connections")
    backup.wait_for_sockets(1)

    stage.say("---", "somebody switches the flag on; only the backup can tell")
    primary.serve(document(True), tells=False)
    backup.serve(document(True), tells=True)
    application.wait_for(True)

    stage.say("---", "the primary comes back; the relay tries it every 5 s here")
    primary.behave({"tcp": None})
    primary.wait_for_sockets(1)
    backup.wait_for_sockets(0)

    stage.say("---", "somebody switches the flag off; the primary tells again")
    primary.serve(document(False), tells=True)
    application.wait_for(False)
    stage.say("---", f"the application saw {application.values}, and no outage")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--relay", type=Path, default=ROOT / "target/debug/staffetta")
    parser.add_argument("--double", type=Path, default=ROOT / "target/debug/examples/double")
    parser.add_argument("--python", type=Path, help="an interpreter that has the SDK already")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    stage = Stage()
    with tempfile.TemporaryDirectory(prefix="staffetta-failover-") as folder:
        try:
            play(stage, options, Path(folder))
        except KeyboardInterrupt:
            stage.say("---", "interrupted")
        finally:
            stage.close()


if __name__ == "__main__":
    main()
