#!/usr/bin/env bash
# Runs every test of the workspace; the runner's own closing lines come last.
#
# usage: test.sh [arguments of the test runner]
set -euo pipefail
cd "$(dirname "$0")/../.."

bash deploy/dev/need.sh redis-server rabbitmq-server python3 pika pynacl faketime
target=${CARGO_TARGET_DIR:-target}
cargo build --locked --workspace --bins
cargo test --locked --workspace --doc --quiet

if cargo nextest --version >/dev/null 2>&1; then
  "$target/debug/with-servers" cargo nextest run --locked --workspace --no-fail-fast "$@"
else
  "$target/debug/with-servers" cargo test --locked --workspace --bins --lib --tests --no-fail-fast \
    -- "$@"
fi
