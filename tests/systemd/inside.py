"""The relay as it is seen from inside its machine, and how claims of it are tried there.

Copied into the machine, with the claims: it needs nothing but Python.
"""

import http.client
import shutil
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path

ETC = Path("/etc/staffetta")
CONFIG, SEED, KEY = ETC / "staffetta.json", ETC / "seed.json", ETC / "client.key"
CREDENTIALS = Path("/etc/credstore")
SECRET = "0123456789abcdef0123456789abcdef"
GUID = "11111111-2222-3333-4444-555555555555"
PATIENCE = 30


def run(*command, check=True):
    """The output of a command."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.returncode}: {done.stdout}")
    return done.stdout


def systemctl(*words, check=True):
    return run("systemctl", *words, check=check)


def show(name, unit="staffetta.service"):
    return systemctl("show", "--value", f"--property={name}", unit).strip()


def journal(since="-1h", *words):
    """What was logged before it is asked for."""
    run("journalctl", "--sync", check=False)
    return run("journalctl", "--no-pager", "--output=cat", f"--since={since}",
               "--unit=staffetta.service", *words, check=False)


def until(what, is_so, seconds=PATIENCE):
    """Waits for it, and says how long it took."""
    start = time.monotonic()
    while not is_so():
        if time.monotonic() - start > seconds:
            raise AssertionError(f"not within {seconds} s: {what}; state {show('ActiveState')}, "
                                 f"status {show('StatusText')!r}")
        time.sleep(0.05)
    return time.monotonic() - start


class Unix(http.client.HTTPConnection):
    """HTTP over the admin socket."""

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("/run/staffetta/admin.sock")


def ask(path, connection=None, key=SECRET):
    """Status, body and headers of a GET; status 0 when there is no connection."""
    connection = connection or http.client.HTTPConnection("127.0.0.1", 7070, timeout=10)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers
    except OSError:
        return 0, b"", {}
    finally:
        connection.close()


def config_path(environment="prod"):
    return (f"/apprapp/feature/v1/instances/{GUID}/config?action=sdkConfig"
            f"&collection_id=payments&environment_id={environment}")


class Stream:
    """An event stream that was registered."""

    def __init__(self, key=SECRET):
        self.socket = socket.create_connection(("127.0.0.1", 7070), timeout=PATIENCE)
        path = (f"/apprapp/feature/v1/instances/{GUID}/environments/prod/sse/subscribe"
                "?collection_id=payments")
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: relay\r\nAuthorization: {key}\r\n"
                            "Accept: text/event-stream\r\n\r\n".encode())
        self.text = b""
        self.read_to(b"event: Registration")

    def read_to(self, what):
        """Reads until that has come; False at the end of the stream."""
        deadline = time.monotonic() + PATIENCE
        while what not in self.text:
            assert time.monotonic() < deadline, f"no {what} in time"
            piece = self.socket.recv(65536)
            if not piece:
                return False
            self.text += piece
        self.text = self.text.split(what, 1)[1]
        return True


def place(path, text):
    """Moves a file of the relay's group over what is there."""
    new = path.with_suffix(".new")
    new.write_text(text)
    shutil.chown(new, "root", "staffetta")
    new.chmod(0o640)
    new.rename(path)


def try_claims(found, set_right):
    """Tries every claim among `found`, by their names, or those that the command line asks for."""
    wanted = "_".join(sys.argv[1:])
    passed = failed = 0
    for name, test in list(found.items()):
        if not name.startswith("test_") or (wanted and wanted not in name):
            continue
        claim = name.removeprefix("test_").replace("_", " ")
        start = time.monotonic()
        try:
            set_right()
            test()
            passed += 1
            print(f"ok {claim} ({time.monotonic() - start:.1f} s)", flush=True)
        except Exception:
            failed += 1
            tail = "\n".join(journal("-30s", "--lines=25").splitlines())
            print(f"FAILED {claim}\n{traceback.format_exc()}{tail}", flush=True)
    print(f"{passed} passed, {failed} failed")
