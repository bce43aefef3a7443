#!/usr/bin/env bash
# Checks the files of this folder as far as that goes without a container engine. RabbitMQ and
# Redis load theirs for real in `make test` (the `deploy` tests).
set -euo pipefail
cd "$(dirname "$0")/.."

scripts() {
  git ls-files --cached --others --exclude-standard 'deploy/*.sh' .ci/run
}

for script in $(scripts); do
  bash -n "$script"
done
if command -v shellcheck >/dev/null; then
  scripts | xargs shellcheck
fi

python3 deploy/check_compose.py

if command -v docker >/dev/null && docker compose version >/dev/null 2>&1; then
  docker compose -f deploy/compose.yaml config --quiet
fi

# systemd refuses a unit whose program is absent, so copies with another program are verified.
if command -v systemd-analyze >/dev/null; then
  copies=$(mktemp -d)
  trap 'rm -rf "$copies"' EXIT
  exposure_max=30 # of 100: the hardening below that must not be lost
  for unit in deploy/systemd/*.service; do
    copy=$copies/$(basename "$unit")
    sed 's|^ExecStart=[^ ]*|ExecStart=/bin/true|' "$unit" >"$copy"
    errors=$(systemd-analyze verify --man=no "$copy" 2>&1 | grep -F "$copies" || true)
    if [ -n "$errors" ]; then
      echo "$unit: $errors" >&2
      exit 1
    fi
    if ! systemd-analyze security --offline=yes --threshold=$exposure_max "$copy" \
      >"$copies/report" 2>&1; then
      cat "$copies/report" >&2
      echo "$unit: exposed more than $exposure_max of 100; restore its hardening" >&2
      exit 1
    fi
  done
fi
