#!/usr/bin/env bash
# Checks what must hold before a push, in the order of how fast it fails. CI runs the same.
set -euo pipefail
cd "$(dirname "$0")/../.."

step() {
  echo "check: $1"
}

step "format"
if ! cargo fmt --all --check -- --files-with-diff; then
  echo "not formatted: the files above; run: cargo fmt --all" >&2
  exit 1
fi

step "lints"
cargo clippy --locked --workspace --all-targets --quiet -- -D warnings

step "documentation"
# For those who work on it: private items are in, and may be linked.
RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" \
  cargo doc --locked --workspace --no-deps --document-private-items --quiet

step "house rules"
cargo run --locked --quiet -p portcullis-tests --bin tidy

step "deploy files"
bash deploy/check.sh

step "generated files"
bash deploy/dev/generated.sh

echo "check: all good"
