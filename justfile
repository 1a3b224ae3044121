set shell := ["bash", "-euo", "pipefail", "-c"]

# Lists what there is.
[private]
default:
    @just --list --unsorted

# Builds the relay, serves the demo seed and prints what to paste.
demo:
    seeds/demo

# Kills a primary and brings it back, before IBM's Python SDK; ends by itself.
demo-failover:
    cargo build --locked --bin staffetta --example double
    tests/double/failover.py

# Runs every test; the SDKs are installed below target/.
test:
    cargo test --locked

# Holds a relay at 1970 until its clock is set (needs faketime, and a build of its own for it).
clock:
    RUSTFLAGS="--cfg rustix_use_libc" cargo build --locked --target-dir target/libc
    STAFFETTA_BY_LIBC=$PWD/target/libc/debug/staffetta \
        cargo test --locked --test upstream clock::

# Checks format, lints, licences, bans and sources.
lint:
    cargo fmt --check
    cargo clippy --locked --all-targets -- -D warnings
    .ci/deny check bans licenses sources

# Asks for known vulnerabilities of what is linked in (needs a network).
advisories:
    .ci/deny check advisories

# Builds the static binary for a target of cross/targets.
cross target="aarch64":
    cross/build {{ target }}

# Runs that binary under emulation and asks it for everything once.
cross-smoke target="aarch64":
    cross/smoke {{ target }}

# Builds the static binary for every target that ships.
cross-all: (cross "aarch64") (cross "armv7") (cross "armv6")

# Packs what is handed out for each target: package, units, SBOM, sums (see cross/dist).
dist *targets="aarch64 armv7 armv6 x86_64":
    for target in {{ targets }}; do cross/dist "$target"; done

# Builds a target from two folders and compares every byte of what is handed out.
test-rebuild target="x86_64":
    cross/rebuild {{ target }}

# Makes an archive of the source with every crate in it (--try builds it without a network).
source *options:
    cross/source {{ options }}

# Lays out a USB stick, or a folder, from which a gateway is installed without a network.
[positional-arguments]
stick dir *options:
    cross/stick "$@"

# Tries the package under a real systemd in a container (as root, on Debian).
test-systemd *words:
    cross/dist $(uname -m)
    python3 tests/systemd/acceptance.py target/dist/$(uname -m)-unknown-linux-musl/*.deb {{ words }}

# Installs a fresh Debian from a stick without a network, and lets the Python SDK ask it.
test-stick:
    cross/dist $(uname -m)
    python3 tests/systemd/stick.py

# Tries the package on an emulated ARM board with 80 MB and a clock at 1970 (as root, on Debian).
test-guest:
    cross/dist aarch64
    cargo build --locked --example double
    python3 tests/systemd/arm64.py target/dist/aarch64-unknown-linux-musl/*.deb \
        "${CARGO_TARGET_DIR:-target}/debug/examples/double"

# Builds what the benchmarks run.
[private]
bench-tools:
    cargo build --release --locked
    cargo build --release --locked --manifest-path tests/bench/Cargo.toml --target-dir target/bench

# Compares a config GET with nginx and a raw write loop (installs nginx and wrk).
bench-get *options: bench-tools
    python3 tests/bench/get.py {{ options }}

# Compares forwarding to servers with HAProxy (installs nginx, wrk and HAProxy).
bench-proxy *options: bench-tools
    python3 tests/bench/proxy.py {{ options }}

# Times a change to 2,000 clients, brokers beside it (--tls, --stuck N; installs the brokers).
bench-fanout *options: bench-tools
    python3 tests/bench/fanout.py {{ options }}

# Times a change at the upstream to the last of 2,000 clients.
bench-propagation *options: bench-tools
    cargo build --release --locked --example double
    python3 tests/bench/propagation.py {{ options }}

# Weighs 5,000 idle clients of each kind on the static build that ships (--tls).
bench-idle *options: bench-tools (cross "x86_64")
    python3 tests/bench/idle.py --relay target/dist/x86_64-unknown-linux-musl/staffetta \
        {{ options }}

# Times exec to the first answer with a 1 MB seed.
bench-start *options: bench-tools
    python3 tests/bench/start.py {{ options }}

# Lets 2,000 TLS clients come back at once while one keeps asking.
bench-reconnect *options: bench-tools
    python3 tests/bench/storm.py {{ options }}

# Storms the relay with more clients than CI has the time for: vanished, too many, sent away.
storms clients="2000":
    RELAY_STORM={{ clients }} cargo test --locked --test relay storm:: -- --nocapture

# Says what the static binaries weigh that were built so far, and what memory one takes when idle.
size:
    @cross/weigh

# Makes a seed of about 1 MB below target/.
seed-large:
    python3 seeds/make-large.py > target/large.json

# Fuzzes one target of tests/fuzz until it is stopped (needs cargo-fuzz and a C++ compiler).
fuzz target *options:
    mkdir -p target/fuzz/corpus/{{ target }} target/fuzz/artifacts
    STAFFETTA_FUZZ_TARGET={{ target }} cargo fuzz run --sanitizer none \
        --fuzz-dir tests/fuzz/cargo --target-dir target/fuzz any \
        target/fuzz/corpus/{{ target }} tests/fuzz/corpus/{{ target }} \
        -- -artifact_prefix=target/fuzz/artifacts/ {{ options }}

# Does what CI does, from installing to the emulated smoke test.
ci:
    .ci/run
