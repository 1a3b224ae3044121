"""What is claimed of the package under systemd, tried in order in a machine of its own.

Each function that begins with `test_` is a claim; it gets a machine on which the package is
installed and the relay serves. A claim that fails prints the end of the journal and the next one
begins with a machine that was set right again.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from inside import (CONFIG, CREDENTIALS, ETC, KEY, PATIENCE, SECRET, SEED, Stream, Unix, ask,
                    config_path, journal, place, run, show, systemctl, try_claims, until)

EXAMPLES = Path("/usr/share/staffetta/examples")
DROP_INS = Path("/etc/systemd/system/staffetta.service.d")
SOCKET_DROP_INS = Path("/etc/systemd/system/staffetta.socket.d")
STATE = Path("/var/lib/staffetta")


def serves():
    return ask(config_path())[0] == 200


def drop_in(name, text):
    DROP_INS.mkdir(exist_ok=True)
    (DROP_INS / f"{name}.conf").write_text(text)
    systemctl("daemon-reload")


def write_config(change=None):
    config = json.loads((EXAMPLES / "staffetta.json").read_text())
    del config["tls"]
    if change:
        change(config)
    place(CONFIG, json.dumps(config))


def set_right():
    """The relay as installed, with the demo seed and one key, serving."""
    systemctl("stop", "staffetta.socket", "staffetta.service", check=False)
    systemctl("disable", "--quiet", "staffetta.socket", check=False)
    for folder in (DROP_INS, SOCKET_DROP_INS, CREDENTIALS, STATE):
        shutil.rmtree(folder, ignore_errors=True)
    write_config()
    place(KEY, SECRET + "\n")
    place(SEED, (EXAMPLES / "seed.json").read_text())
    systemctl("daemon-reload")
    systemctl("reset-failed", "staffetta.service", check=False)
    systemctl("start", "staffetta.service")


def change_seed():
    text = (EXAMPLES / "seed.json").read_text()
    changed = text.replace('"enabled": true', '"enabled": false')
    assert changed != text
    place(SEED, changed)


def test_start_is_ready_within_two_seconds_and_says_what_is_served():
    assert show("StatusText").startswith("serves 4 of 4 slots (seed), "), show("StatusText")
    systemctl("stop", "staffetta")
    start = time.monotonic()
    systemctl("start", "staffetta")
    took = time.monotonic() - start
    assert serves(), "the socket takes connections once the unit is active"
    assert took < 2, f"{took:.1f} s"
    assert show("StatusText").startswith("serves 4 of 4 slots (cache), "), show("StatusText")
    assert b'"serving"' in ask("/status", Unix("admin"))[1]
    assert "No problems." in run("staffetta", "status")


def test_the_units_are_read_without_a_warning():
    for profile in ("online", "air-gap"):
        if profile == "air-gap":
            air_gap()
        said = run("systemd-analyze", "verify", "staffetta.service", "staffetta.socket")
        ours = [line for line in said.splitlines() if "staffetta" in line]
        assert not ours, ours


def test_it_runs_as_its_own_user_without_capabilities():
    pid = show("MainPID")
    status = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["Uid"].split()[0] == run("id", "-u", "staffetta").strip()
    assert int(fields["CapEff"], 16) == 0 and fields["NoNewPrivs"] == "1"
    assert fields["Seccomp"] == "2"
    mode = ETC.stat().st_mode & 0o777
    assert mode == 0o750, oct(mode)


def test_what_was_served_survives_a_bad_seed_until_a_factory_reset():
    place(SEED, "{}")
    systemctl("restart", "staffetta")
    assert serves() and "4 of 4 slots (cache)" in show("StatusText"), show("StatusText")
    systemctl("stop", "staffetta")
    shutil.rmtree(STATE)
    systemctl("start", "staffetta")
    status, _, headers = ask(config_path())
    assert (status, "Retry-After" in headers) == (503, True), status
    text = show("StatusText")
    assert text.startswith("serves 0 of 4 slots") and "nothing to serve" in text, text
    place(SEED, (EXAMPLES / "seed.json").read_text())
    until("the good seed is served", serves)
    until("the status says so", lambda: "4 of 4" in show("StatusText"))


def test_a_wrong_config_fails_once_with_78_and_one_error_line():
    systemctl("stop", "staffetta")
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    write_config(lambda config: config.update(listne=["[::]:7070"]))
    systemctl("start", "staffetta", check=False)
    time.sleep(3)
    assert show("ActiveState") == "failed", show("ActiveState")
    assert (show("ExecMainStatus"), show("NRestarts")) == ("78", "0")
    errors = journal(since, "--priority=3", "--identifier=staffetta").strip().splitlines()
    assert len(errors) == 1 and str(CONFIG) in errors[0] and "listne" in errors[0], errors
    assert "listne" in show("StatusText"), show("StatusText")


def test_a_wrong_config_behind_a_socket_is_tried_once_however_many_clients_wait():
    for profile in ("online", "air-gap"):
        set_right()
        systemctl("stop", "staffetta")
        if profile == "air-gap":
            air_gap()
        write_config(lambda config: config.update(listne=1))
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        systemctl("start", "staffetta.socket")
        waiting = [socket.create_connection(("127.0.0.1", 7070))]
        for _ in range(2):
            # It may be refused by then, which is what is wanted in the end.
            waiting.append(socket.socket())
            waiting[-1].connect_ex(("127.0.0.1", 7070))
        until("it is refused", lambda: show("ActiveState") == "failed")
        time.sleep(3)
        starts = journal(since).count("status=78")
        assert (starts, show("ExecMainStatus"), show("NRestarts")) == (1, "78", "0"), starts
        assert show("ActiveState", "staffetta.socket") == "inactive", "nobody waits for nothing"
        assert show("ActiveState", "staffetta-refused.target") == "active"
        for connection in waiting:
            connection.close()
        write_config()
        systemctl("start", "staffetta.socket", "staffetta")
        assert serves() and show("ActiveState", "staffetta-refused.target") == "inactive"


def test_a_hanging_process_is_ended_by_the_watchdog_and_serves_again():
    watchdog = 4
    drop_in("watchdog", f"[Service]\nWatchdogSec={watchdog}\nRestartSec=100ms\n")
    systemctl("restart", "staffetta")
    time.sleep(2 * watchdog)
    assert show("NRestarts") == "0", "it is fed"
    pid = int(show("MainPID"))
    os.kill(pid, signal.SIGSTOP)
    took = until("it is started again", lambda: show("MainPID") not in ("0", str(pid)))
    assert took < watchdog * 1.5 + 1, f"{took:.1f} s"
    until("it serves again", serves)
    assert show("NRestarts") == "1"
    assert "atchdog timeout" in run("journalctl", "--no-pager", "--unit=staffetta.service")


def test_a_taken_port_is_named_and_tried_again():
    systemctl("stop", "staffetta")
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    with socket.create_server(("::", 7070), family=socket.AF_INET6, dualstack_ipv6=True):
        systemctl("start", "staffetta", check=False)
        until("it is tried again", lambda: int(show("NRestarts")) >= 1)
    assert "status=1/FAILURE" in journal(since)
    assert ":7070" in journal(since, "--priority=3"), journal(since)
    until("it serves once the port is free", serves)


def test_credentials_may_be_absent_or_empty_or_end_with_a_newline():
    place = "${CREDENTIALS_DIRECTORY}/staffetta.client-key"
    write_config(lambda config: config["client_keys"][0].update(key_file=place))
    file = CREDENTIALS / "staffetta.client-key"
    for content, wanted in ((None, 503), ("", 503), (SECRET + "\n", 200), (SECRET, 200)):
        CREDENTIALS.mkdir(mode=0o700, exist_ok=True)
        if content is not None:
            file.write_text(content)
            file.chmod(0o644)
        systemctl("restart", "staffetta")
        status = ask(config_path())[0]
        assert status == wanted, f"{content!r}: {status}"


def test_a_reload_waits_for_its_verdict():
    systemctl("restart", "staffetta")
    assert "(cache)" in show("StatusText"), show("StatusText")
    stream = Stream()
    change_seed()
    systemctl("reload", "staffetta")
    assert stream.read_to(b"event: SSEEvent_update"), "the stream is told and lives on"
    status = show("StatusText")
    assert status.startswith("serves 4 of 4 slots (seed), 1 clients"), status
    assert show("ActiveState") == "active"
    served = ask(config_path())[1]
    place(SEED, "{ torn")
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    failed = subprocess.run(["systemctl", "reload", "staffetta"], capture_output=True, check=False)
    assert failed.returncode != 0, "a refused seed fails the reload"
    assert show("ActiveState") == "active" and ask(config_path())[1] == served
    assert "seed.json" in journal(since, "--priority=3"), journal(since)
    change_seed()
    systemctl("reload", "staffetta")
    write_config(lambda config: config.update(listne=1))
    failed = subprocess.run(["systemctl", "reload", "staffetta"], capture_output=True, check=False)
    assert failed.returncode != 0 and serves(), "a refused config changes nothing"


def test_a_socket_unit_holds_connections_over_a_restart():
    systemctl("stop", "staffetta")
    systemctl("start", "staffetta.socket")
    assert serves(), "the first connection starts it"
    outcomes = set()
    restart = subprocess.Popen(["systemctl", "restart", "staffetta.service"])
    while restart.poll() is None:
        outcomes.add(ask(config_path())[0])
    outcomes.add(ask(config_path())[0])
    assert restart.returncode == 0 and outcomes == {200}, f"refused or cut: {outcomes}"


def air_gap():
    run("cp", "-r", "/usr/share/staffetta/air-gap/.", "/etc/systemd/system/")
    systemctl("daemon-reload")


def test_the_air_gap_profile_serves_without_a_network():
    systemctl("stop", "staffetta")
    air_gap()
    systemctl("start", "staffetta")
    assert serves()
    pid = show("MainPID")
    devices = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in devices] == ["lo"], devices
    assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/1/ns/net")
    assert "No problems." in run("staffetta", "status"), "the admin socket answers"
    systemctl("reload", "staffetta")
    # What the sandbox refuses: a socket of its own to the network.
    probe = ["systemd-run", "--quiet", "--wait", "--property=RestrictAddressFamilies=AF_UNIX",
             "python3", "-c", "import socket; socket.socket(socket.AF_INET)"]
    assert subprocess.run(probe, check=False).returncode != 0


def test_connections_wait_while_the_package_is_upgraded_in_the_air_gap():
    systemctl("stop", "staffetta")
    air_gap()
    systemctl("start", "staffetta")
    pid, outcomes = show("MainPID"), set()
    upgrade = subprocess.Popen(["dpkg", "--install", "/acceptance/later.deb"],
                               stdout=subprocess.DEVNULL)
    while upgrade.poll() is None:
        outcomes.add(ask("/nothing-here")[0])
    assert upgrade.returncode == 0 and outcomes == {404}, f"refused or cut: {outcomes}"
    assert show("MainPID") not in ("0", pid) and serves()
    run("dpkg", "--install", "/acceptance/staffetta.deb")


def test_an_upstream_that_is_away_delays_nothing_and_is_in_the_status():
    systemctl("stop", "staffetta")
    shutil.rmtree(STATE)
    upstream = {"primary": {"url": "http://192.0.2.1:80", "api_key": "unused"}}
    write_config(lambda config: config.update(start="fast", upstream=upstream))
    start = time.monotonic()
    systemctl("start", "staffetta")
    took = time.monotonic() - start
    assert serves() and took < 2, f"{took:.1f} s"
    until("the status says so", lambda: "no upstream has been followed" in show("StatusText"))
    assert show("StatusText").startswith("serves 4 of 4 slots (seed), "), show("StatusText")


def test_an_admin_address_of_tcp_is_left_out_in_the_air_gap():
    systemctl("stop", "staffetta")
    air_gap()
    write_config(lambda config: config.update(admin={"listen": "127.0.0.1:7071"}))
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    systemctl("start", "staffetta")
    assert serves() and show("NRestarts") == "0"
    said = journal(since, "--priority=4", "--identifier=staffetta")
    assert "127.0.0.1:7071" in said, journal(since)
    # The unit's own is there all the same.
    assert "payments/prod" in run("staffetta", "status")
    systemctl("reload", "staffetta")


def dials():
    """How often the one slot's primary was tried."""
    [slot] = json.loads(ask("/status", Unix("admin"))[1])["slots"]
    return slot["following"]["links"][0]["dials"]


def test_the_air_gap_profile_keeps_the_relay_itself_from_connecting():
    systemctl("stop", "staffetta")
    air_gap()
    # An address, so that nobody is asked for a name; no host has it.
    upstream = {"primary": {"url": "http://192.0.2.1:80", "api_key": "unused"}}
    write_config(lambda config: config.update(start="fast", upstream=upstream,
                                              slots=config["slots"][-1:]))
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    systemctl("start", "staffetta")
    assert serves()
    until("it was tried again", lambda: dials() >= 2)
    lines = [line for line in journal(since).splitlines() if "192.0.2.1" in line]
    assert len(lines) == 1 and "no network of this kind" in lines[0], lines
    assert serves() and show("NRestarts") == "0"


def test_the_end_is_in_order_and_in_time():
    streams = [Stream() for _ in range(100)]
    start = time.monotonic()
    stop = subprocess.Popen(["systemctl", "stop", "staffetta"])
    until("the status says so", lambda: "ending" in show("StatusText"), 3)
    for stream in streams:
        # The last chunk: the stream is whole, and not cut.
        assert stream.read_to(b"0\r\n\r\n"), "cut off"
    assert stop.wait(PATIENCE) == 0
    took = time.monotonic() - start
    assert took < 6, f"{took:.1f} s"
    assert (show("Result"), show("ExecMainStatus")) == ("success", "0")


def test_twenty_crashes_in_a_row_do_not_end_it():
    drop_in("fast", "[Service]\nRestartSec=50ms\n")
    systemctl("restart", "staffetta")
    for number in range(20):
        pid = show("MainPID")
        os.kill(int(pid), signal.SIGKILL)
        until("it is back", lambda: show("MainPID") not in ("0", pid)
              and show("ActiveState") == "active")
        assert int(show("NRestarts")) == number + 1
    until("it serves", serves)


def test_crashes_do_not_end_it_while_clients_wait_at_a_socket_either():
    systemctl("stop", "staffetta")
    air_gap()
    drop_in("fast", "[Service]\nRestartSec=200ms\n")
    systemctl("start", "staffetta")
    for _ in range(20):
        pid = show("MainPID")
        os.kill(int(pid), signal.SIGKILL)
        # Waits in the backlog, and is answered by the next one.
        assert serves() or serves()
        until("it is back", lambda: show("MainPID") not in ("0", pid))
    assert show("ActiveState", "staffetta.socket") == "active"


def test_it_outlives_the_journal():
    pid = show("MainPID")
    units = ["systemd-journald.socket", "systemd-journald-dev-log.socket",
             "systemd-journald-audit.socket", "systemd-journald.service"]
    systemctl("stop", *units, check=False)
    try:
        change_seed()
        systemctl("reload", "staffetta", check=False)
        assert serves() and show("MainPID") == pid
    finally:
        systemctl("start", *units, check=False)


def test_the_generated_limits_are_taken():
    write_config(lambda config: config.update(limits={"connections": 64, "memory": "8MiB"}))
    drop_in("limits", run("staffetta", "unit", "--config", str(CONFIG)))
    systemctl("restart", "staffetta")
    found = (show("MemoryHigh"), show("MemoryMax"), show("LimitNOFILE"))
    assert found == (str(9 << 20), str(17 << 20), "4096"), found
    assert "LimitNOFILE" not in journal("-5s"), "and suffice"


def test_an_upgrade_keeps_everything_and_restarts():
    change_seed()
    systemctl("reload", "staffetta")
    pid, served, config = show("MainPID"), ask(config_path())[1], CONFIG.read_text()
    run("dpkg", "--install", "/acceptance/later.deb")
    assert show("MainPID") not in ("0", pid) and show("ActiveState") == "active"
    assert (ask(config_path())[1], CONFIG.read_text()) == (served, config)
    run("dpkg", "--install", "/acceptance/staffetta.deb")
    assert serves(), "and back"


def test_remove_keeps_what_is_the_sites_and_purge_does_not():
    run("dpkg", "--remove", "staffetta")
    assert CONFIG.exists() and SEED.exists() and not Path("/usr/bin/staffetta").exists()
    assert ask(config_path())[0] == 0
    assert show("LoadState") == "not-found"
    run("dpkg", "--install", "/acceptance/staffetta.deb")
    assert serves(), "a new installation finds its config and starts"
    run("dpkg", "--purge", "staffetta")
    assert not ETC.exists() and not STATE.exists()
    run("dpkg", "--install", "/acceptance/staffetta.deb")


def test_installed_without_a_config_it_waits_to_be_configured():
    run("dpkg", "--purge", "staffetta")
    run("dpkg", "--install", "/acceptance/staffetta.deb")
    assert systemctl("is-enabled", "staffetta").strip() == "enabled"
    assert (show("ActiveState"), show("ConditionResult")) == ("inactive", "no")


def main():
    run("dpkg", "--install", "/acceptance/staffetta.deb")
    try_claims(globals(), set_right)


if __name__ == "__main__":
    main()
