#!/usr/bin/env python3
"""Seeds of a wanted size, in the service's export form, and the relay that serves them.

Run by itself, it prints a seed: `seed.py [BYTES]`.

The document looks like a real one: flags of every type, rules, a segment; the property
`bench-round` differs between rounds and keeps the length the same.
"""

import json
import subprocess
import sys
import urllib.request
from rig import fail, json_line

GUID = "11111111-2222-3333-4444-555555555555"
COLLECTION = "inventory"
ENVIRONMENT = "dev"
KEY = "bench-key-bench-key-bench-key-00"
ADMIN_TOKEN = "bench-admin-token"
CONFIG_PATH = (f"/apprapp/feature/v1/instances/{GUID}/config?action=sdkConfig"
               f"&collection_id={COLLECTION}&environment_id={ENVIRONMENT}")
SSE_PATH = (f"/apprapp/feature/v1/instances/{GUID}/environments/{ENVIRONMENT}"
            f"/sse/subscribe?collection_id={COLLECTION}")
WS_PATH = (f"/apprapp/wsfeature?instance_id={GUID}&collection_id={COLLECTION}"
           f"&environment_id={ENVIRONMENT}")
TOKEN_FORM = ("grant_type=urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Aapikey"
              f"&apikey={KEY}&response_type=cloud_iam")


def feature(number):
    values = [("BOOLEAN", True, False), ("NUMERIC", 40 + number, 20), ("STRING", "on", "off")]
    kind, enabled, disabled = values[number % 3]
    rule = {"rules": [{"segments": ["staff"]}], "value": "$default", "order": 1,
            "rollout_percentage": "$default"}
    return {
        "name": f"Feature {number}", "feature_id": f"feature-{number}", "type": kind,
        **({"format": "TEXT"} if kind == "STRING" else {}),
        "enabled_value": enabled, "disabled_value": disabled, "enabled": number % 4 != 0,
        "rollout_percentage": 100, "segment_rules": [rule] if number % 2 else [],
        "collections": [{"collection_id": COLLECTION, "name": "Inventory"}],
    }


def seed(size_bytes, round_number):
    """A seed of about `size_bytes`, as bytes."""
    features = []
    mark = {"name": "Round", "property_id": "bench-round", "type": "STRING", "format": "TEXT",
            "value": f"{round_number:08d}", "segment_rules": [],
            "collections": [{"collection_id": COLLECTION, "name": "Inventory"}]}
    document = {
        "environments": [{"name": "Dev", "environment_id": ENVIRONMENT,
                          "features": features, "properties": [mark]}],
        "collections": [{"name": "Inventory", "collection_id": COLLECTION}],
        "segments": [{"name": "Staff", "segment_id": "staff", "rules": [
            {"attribute_name": "email", "operator": "endsWith", "values": ["@shop.test"]}]}],
    }
    left = size_bytes - len(json_line(document))
    while left > 0:
        features.append(feature(len(features)))
        left -= len(json_line(features[-1])) + 1
    return json_line(document)


class Double:
    """A running double of the service that has a seed for document."""

    # By this request a round changes the document, and tells the sockets of it.
    PUT_PATH = f"/documents/{COLLECTION}/{ENVIRONMENT}?notify=1"

    def __init__(self, rig, program, name, document):
        argv = [program, "--node", name, "--api-key", KEY, "--guid", GUID]
        self.program = rig.start(name, argv)
        self.port = int(self.program.wait_for(r"serving on 127\.0\.0\.1:(\d+)")[1])
        self.control_port = int(self.program.wait_for(r"control on 127\.0\.0\.1:(\d+)")[1])
        url = f"http://127.0.0.1:{self.control_port}{self.PUT_PATH}"
        request = urllib.request.Request(url, document, method="PUT")
        urllib.request.urlopen(request, timeout=5).close()


class Relay:
    """A running relay with its own seed file, or with an upstream, and its two ports."""

    def __init__(self, rig, name, size_bytes=20_000, tls=False, connections=1024, upstream=None):
        self.folder = rig.folder / name
        self.folder.mkdir()
        self.seed = self.folder / "seed.json"
        self.size_bytes = size_bytes
        self.seed.write_bytes(seed(size_bytes, 0))
        self.ca = self.folder / "ca.crt"
        config = {
            "listen": ["127.0.0.1:0"],
            "admin": {"listen": ["127.0.0.1:0"], "token": ADMIN_TOKEN},
            "seed": {"file": str(self.seed)},
            "instance": {"guid": GUID, "region": "us-south"},
            "client_keys": [{"id": "bench", "key": KEY}],
            "slots": [{"collection": COLLECTION, "environment": ENVIRONMENT}],
            "limits": {"connections": connections, "memory": "1GiB"},
            "log": {"format": "plain"},
        }
        if upstream:
            del config["seed"]
            primary = {"url": f"http://127.0.0.1:{upstream.port}", "api_key": KEY}
            config["upstream"] = {"primary": primary}
        if tls:
            made = subprocess.run([rig.relay, "cert", "--dir", self.folder, "--name", "localhost"],
                                  capture_output=True, text=True, check=False)
            if made.returncode != 0:
                fail(f"staffetta cert: {made.stderr}")
            config["tls"] = {"cert": str(self.folder / "relay.crt"),
                             "key": str(self.folder / "relay.key")}
        self.config = self.folder / "config.json"
        self.config.write_bytes(json_line(config))
        self.argv = [rig.relay, "run", "--config", self.config]
        self.program = rig.start(name, self.argv)
        self.port = int(self.program.wait_for(r"listening on 127\.0\.0\.1:(\d+) \(SDK")[1])
        self.admin_port = int(self.program.wait_for(r"listening on 127\.0\.0\.1:(\d+) \(admin")[1])

    def token(self):
        """A token, fetched as an SDK does."""
        url = f"http://127.0.0.1:{self.port}/identity/token"
        command = ["curl", "-sS", "--fail-with-body", "--max-time", "5", "--data", TOKEN_FORM, url]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            fail(f"no token: {answer.stderr}{answer.stdout}")
        return json.loads(answer.stdout)["access_token"]

    def next_seed(self, round_number):
        """Writes the seed of a round beside the one being served, which is number 0; its path."""
        path = self.folder / "next.json"
        path.write_bytes(seed(self.size_bytes, round_number + 1))
        return path


class Subject:
    """What is measured: a fresh relay, or the raw loop where the relay is left out."""

    def __init__(self, rig, options, name, tls):
        if rig.relay:
            relay = Relay(rig, name, options.size, tls, options.clients + 64)
            self.program, self.port, self.token = relay.program, relay.port, relay.token()
        else:
            self.program, self.port = rig.raw_loop(seed(options.size, 0), name)
            self.token = "t" * 300
        self.tls = ["--tls-ca", relay.ca, "--tls-name", "localhost"] if tls else []

    def clients(self, kind, path):
        """What a swarm is told of how its clients reach this."""
        return ["--kind", kind, "--to", f"127.0.0.1:{self.port}", "--path", path,
                "--header", f"Authorization: Bearer {self.token}", *self.tls]


if __name__ == "__main__":
    sys.stdout.buffer.write(seed(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000, 0))
