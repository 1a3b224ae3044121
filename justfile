set shell := ["bash", "-euo", "pipefail", "-c"]

# Lists what there is.
[private]
default:
    @just --list --unsorted

# Builds the relay, serves the demo seed and prints what to paste.
demo:
    seeds/demo

# Runs every test; the SDKs are installed below target/.
test:
    cargo test --locked

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

# Compares a config GET with nginx and a raw write loop (installs nginx and wrk).
bench-get *options:
    python3 tests/bench/get.py {{ options }}

# Times a change from reload to the last byte at 2,000 clients.
bench-fanout *options:
    python3 tests/bench/fanout.py {{ options }}

# Makes a seed of about 1 MB below target/.
seed-large:
    python3 seeds/make-large.py > target/large.json

# Fuzzes one target of tests/fuzz until it is stopped (needs nightly Rust and cargo-fuzz).
fuzz target *options:
    mkdir -p target/fuzz/corpus/{{ target }} target/fuzz/artifacts
    STAFFETTA_FUZZ_TARGET={{ target }} cargo +nightly fuzz run --fuzz-dir tests/fuzz/cargo \
        --target-dir target/fuzz any \
        target/fuzz/corpus/{{ target }} tests/fuzz/corpus/{{ target }} \
        -- -artifact_prefix=target/fuzz/artifacts/ {{ options }}

# Does what CI does, from installing to the emulated smoke test.
ci:
    .ci/run
