"""What is claimed of install.sh, tried in order on a gateway without a network.

Each function that begins with `test_` is a claim; it gets a machine on which install.sh has just
run for the first time, and the stick as it was laid out.
"""

import http.client
import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from inside import (CONFIG, CREDENTIALS, ETC, KEY, SEED, Stream, ask, config_path, journal, place,
                    run, show, systemctl, try_claims, until)

STICK, LAID_OUT = Path("/media/stick"), Path("/acceptance/stick")
SITE = STICK / "site"
UNITS = Path("/etc/systemd/system")
FAR = os.environ["GATEWAY"]


def install(*words):
    """Exit code and words of install.sh."""
    done = subprocess.run(["sh", STICK / "install.sh", *words], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def installed(*words):
    code, said = install(*words)
    assert code == 0, f"{code}: {said}"
    return said


def bare():
    """As if there had never been a relay here, with the stick as it was laid out."""
    systemctl("stop", "staffetta.socket", "staffetta.service", check=False)
    run("dpkg", "--purge", "staffetta")
    for folder in (CREDENTIALS, STICK):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(LAID_OUT, STICK)
    systemctl("daemon-reload")


def set_right():
    bare()
    installed()


def answer(port=7070, host="127.0.0.1", key=None):
    """The status of an answer; 0 when there is none."""
    connection = http.client.HTTPConnection(host, port, timeout=10)
    return ask(config_path(), connection, key or KEY.read_text().strip())[0]


def serves(*where, **how):
    return answer(*where, **how) == 200


def change(file, change_it):
    """Changes a configuration; one of the relay's stays its own."""
    config = json.loads(file.read_text())
    change_it(config)
    if file == CONFIG:
        place(file, json.dumps(config))
    else:
        file.write_text(json.dumps(config))


def whole():
    """All that an installation may change: files with their content, and who runs."""
    files = [file for folder in (ETC, UNITS) if folder.exists() for file in folder.rglob("*")]
    return {file: file.read_bytes() for file in files if file.is_file()} | {"pid": show("MainPID")}


def network():
    return show("PrivateNetwork"), show("ActiveState", "staffetta.socket")


def test_a_second_run_changes_nothing_and_interrupts_nobody():
    before = whole()
    said = installed()
    assert whole() == before and serves()
    assert "in the air-gap profile, as before" in said and "kept" not in said, said
    left = list(Path("/var/lib").glob("staffetta-install*"))
    assert not left, left


def test_a_new_seed_reaches_clients_without_a_restart():
    pid, stream = show("MainPID"), Stream(KEY.read_text().strip())
    seed = SITE / "seed.json"
    seed.write_text(seed.read_text().replace('"enabled": true', '"enabled": false'))
    installed()
    assert stream.read_to(b"event: SSEEvent_update") and show("MainPID") == pid
    assert SEED.read_bytes() == seed.read_bytes()


def test_a_torn_seed_changes_nothing():
    before = whole()
    (SITE / "seed.json").write_text("{ torn")
    code, said = install()
    assert code == 1 and "nothing was changed" in said and "/etc/staffetta/seed.json" in said, said
    assert whole() == before and serves()


def test_a_stick_that_will_not_do_installs_nothing():
    bare()
    (SITE / "relay.key").unlink()
    code, said = install()
    assert code == 1 and "nothing was changed" in said and "relay.key" in said, said
    assert not ETC.exists() and not Path("/usr/bin/staffetta").exists()
    assert not (UNITS / "staffetta.service.d").exists()


def test_what_is_not_taken_from_the_stick_is_said():
    for name in ("staffetta.json", "relay.crt"):
        (SITE / name).write_text("other")
    (ETC / "ca.crt").unlink()
    (SITE / "System Volume Information").mkdir()
    said = installed()
    for line in ("kept /etc/staffetta/staffetta.json", "kept /etc/staffetta/relay.crt",
                 "left out site/ca.crt", "left out site/System Volume Information"):
        assert line in said, f"{line}: {said}"
    assert "kept /etc/staffetta/client.key" not in said and not (ETC / "ca.crt").exists()


def test_a_stick_without_a_site_upgrades_only():
    shutil.rmtree(SITE)
    installed()
    assert serves()


def test_the_profile_stays_until_another_is_asked_for():
    assert network() == ("yes", "active")
    said = installed("--online")
    assert network() == ("no", "inactive") and serves(), said
    assert systemctl("is-enabled", "staffetta.socket", check=False).strip() == "disabled"
    assert "in the online profile, as asked" in said and "sh install.sh --air-gap" in said, said
    pid = show("MainPID")
    assert "in the online profile, as before" in installed()
    assert (network(), show("MainPID")) == (("no", "inactive"), pid)
    assert "in the air-gap profile, as asked" in installed("--air-gap")
    assert network() == ("yes", "active") and serves()
    code, said = install("--offline")
    assert code == 1 and "--air-gap" in said, said


def test_the_first_time_the_configuration_decides():
    upstream = {"primary": {"url": "http://192.0.2.1:80", "api_key": "0123456789abcdef"}}
    routes = {"Routes": {"all": {"ClusterId": "plant", "Match": {"Path": "/{**rest}"}}},
              "Clusters": {"plant": {"Destinations": {"a": {"Address": "http://127.0.0.1:9"}}}}}
    for more in ({"upstream": upstream, "start": "fast"}, {"ReverseProxy": routes}):
        bare()
        change(SITE / "staffetta.json", lambda config: config.update(more))
        said = installed()
        assert "in the online profile, by its configuration" in said, said
        assert network() == ("no", "inactive") and serves()
    said = installed("--air-gap")
    assert network() == ("yes", "active") and "sh install.sh --online" in said, said
    bare()
    config = (SITE / "staffetta.json").read_text()
    (SITE / "staffetta.json").write_text('// There is no "upstream" here.\n' + config)
    assert "in the air-gap profile" in installed()


def test_the_air_gap_listens_where_the_configuration_says():
    change(CONFIG, lambda config: config.update(listen=["127.0.0.1:7443", "[::]:443"]))
    said = installed()
    assert "HTTPS_PROXY=http://127.0.0.1:7443" in said, said
    assert serves(7443) and serves(443) and serves(443, FAR) and network() == ("yes", "active")
    for host, port in (("127.0.0.1", 7070), (FAR, 7443)):
        assert socket.socket().connect_ex((host, port)) != 0, f"{host}:{port} is open"
    change(CONFIG, lambda config: config.update(listen="[::]:7071"))
    assert f"HTTPS_PROXY=http://{FAR}:7071" in installed() and serves(7071, FAR)
    assert "HTTPS_PROXY=http://" in installed("--online") and serves(7071, FAR)


def test_a_credential_that_is_not_there_yet_hinders_nobody():
    bare()
    secret = "${CREDENTIALS_DIRECTORY}/staffetta.client-key"

    def use_credential(config):
        config["client_keys"][0]["key_file"] = secret
        # Not there before install.sh has run, either.
        config["tls"] = {name: f"/etc/staffetta/relay.{end}"
                         for name, end in (("cert", "crt"), ("key", "key"))}

    change(SITE / "staffetta.json", use_credential)
    missing = "there is no /etc/credstore/staffetta.client-key yet"
    said = installed()
    assert missing in said and show("ActiveState") == "active", said
    CREDENTIALS.mkdir(mode=0o700)
    (CREDENTIALS / "staffetta.client-key").write_text("0123456789abcdef-credential")
    systemctl("restart", "staffetta")
    assert serves(key="0123456789abcdef-credential")
    assert missing not in installed()


def test_what_does_not_start_is_said_with_its_reason():
    installed("--online")
    systemctl("stop", "staffetta")
    with socket.create_server(("::", 7070), family=socket.AF_INET6, dualstack_ipv6=True):
        code, said = install()
    assert code == 1 and "it does not start" in said and "[::]:7070" in said, said
    until("it serves once the port is free", serves)


def test_a_refused_configuration_is_mended_by_another_run():
    good = CONFIG.read_text()
    change(CONFIG, lambda config: config.update(listne=1))
    code, said = install()
    assert code == 1 and "nothing was changed" in said and "listne" in said, said
    assert serves()
    systemctl("restart", "staffetta", check=False)
    until("the socket is closed", lambda: network()[1] == "inactive")
    place(CONFIG, good)
    installed()
    assert serves() and network()[1] == "active"


def test_a_newer_package_is_started_once_and_connections_wait():
    [package] = STICK.glob("packages/*/*.deb")
    shutil.copy("/acceptance/later.deb", package)
    sums = run("sh", "-c", f"cd {STICK} && find install.sh packages -type f | xargs sha256sum")
    (STICK / "SHA256SUMS").write_text(sums)
    pid, starts, answers = show("MainPID"), journal().count("Started staffetta"), set()
    upgrade = subprocess.Popen(["sh", STICK / "install.sh"], stdout=subprocess.PIPE, text=True)
    while upgrade.poll() is None:
        answers.add(answer())
    assert upgrade.returncode == 0 and answers == {200}, f"{answers} {upgrade.stdout.read()}"
    assert show("MainPID") not in ("0", pid)
    assert journal().count("Started staffetta") == starts + 1, journal("-30s")


if __name__ == "__main__":
    try_claims(globals(), set_right)
