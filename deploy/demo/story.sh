#!/usr/bin/env bash
# What both demos share: an installation in a folder of its own, two triggers, one denial by time,
# one approval, and the waits in between. Sourced by embedded.sh and rabbitmq.sh.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
TARGET=$(cd "$ROOT" && realpath -m "${CARGO_TARGET_DIR:-target}")
PORTCULLIS=$TARGET/debug/portcullis
export NO_COLOR=1

say() { printf '\n== %s\n' "$*"; }
die() { printf 'demo: %s\n' "$*" >&2; exit 1; }

# Waits a tenth of a second without a process of its own.
pause() { read -rt 0.1 <> <(:) || true; }

# A folder that goes with us, and only our own processes with it.
start_story() {
  for need in curl openssl; do
    command -v "$need" >/dev/null || die "$need is missing (Debian: apt-get install $need)"
  done
  HOME_DIR=$(mktemp -d)
  PIDS=()
  trap stop_story EXIT
  cd "$HOME_DIR"
  GITHUB_SECRET=$(openssl rand -hex 20)
  export GITHUB_SECRET PORTCULLIS_WORKER_SLOTS=1 PORTCULLIS_HTTP_LISTEN=127.0.0.1:0
  "$PORTCULLIS" init >/dev/null
}

stop_story() {
  local code=$?
  trap - EXIT
  for pid in "${PIDS[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${PIDS[@]}"; do wait "$pid" 2>/dev/null || true; done
  if [ "$code" -ne 0 ]; then tail -n 20 "$HOME_DIR"/*.log >&2 || true; fi
  rm -rf "$HOME_DIR"
  exit "$code"
}

# write_agents POOL: who deploys and who reports must ask that pool; who counts need not.
write_agents() {
  mkdir -p agents.d reminders.d webhooks.d
  cat >agents.d/deployer.toml <<TOML
description = "Deploys what was pushed, once somebody has agreed"
playbook = [
  { tool = "shell", argv = ["sh", "-c", "echo deployed \"\$0\" >> effects.log", "{{input.ref}}"] },
]
[tools.shell]
gate = "ask"
pool = "$1"
TOML
  cat >agents.d/reporter.toml <<TOML
description = "Reports by itself at night, and must ask as well"
playbook = [ { tool = "shell", argv = ["sh", "-c", "echo reported >> effects.log"] } ]
[tools.shell]
gate = "ask"
pool = "$1"
[limits]
approval = "5s"
TOML
  cat >agents.d/counter.toml <<TOML
description = "Needs nobody"
playbook = [ { tool = "shell", argv = ["sh", "-c", "echo counted >> effects.log"] } ]
[tools.shell]
gate = "allow"
TOML
  cat >webhooks.d/github.toml <<TOML
agent = "deployer"
verify = { scheme = "github", secret_env = "GITHUB_SECRET" }
TOML
  cat >reminders.d/nightly.toml <<TOML
agent = "reporter"
at = "$(date -u -d '+4 seconds' +%Y-%m-%dT%H:%M:%SZ)"
TOML
}

# serve LOG COMMAND...: starts one of our processes.
serve() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 &
  PIDS+=($!)
}

# listening LOG: the address that a process listens on, once it does.
listening() {
  local line
  for _ in $(seq 200); do
    line=$(grep -m1 -o "serving http://[0-9.:]*" "$1" || true)
    if [ -n "$line" ]; then
      echo "${line#serving }"
      return
    fi
    pause
  done
  die "nothing listens: $(tail -n 3 "$1")"
}

# until_line WHAT COMMAND...: waits for a command to print something, at most 20 seconds.
until_line() {
  local what=$1 line
  shift
  for _ in $(seq 200); do
    line=$("$@" 2>/dev/null || true)
    if [ -n "$line" ]; then
      echo "$line"
      return
    fi
    pause
  done
  die "not within 20 seconds: $what"
}

field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" | head -n 1; }

# send_webhook: signs a push event as GitHub does, and prints the run it became.
send_webhook() {
  local body='{"ref":"refs/heads/main","after":"0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c"}'
  local signature
  signature=$(printf %s "$body" | openssl dgst -sha256 -hmac "$GITHUB_SECRET" -r | cut -d' ' -f1)
  curl -sS --fail-with-body -H "X-Hub-Signature-256: sha256=$signature" \
    -H 'Content-Type: application/json' -H 'X-GitHub-Event: push' -d "$body" \
    "$PORTCULLIS_API_URL/hooks/github" | field run_id
}

# approval_of RUN: its open request.
approval_of() {
  curl -sS "$PORTCULLIS_API_URL/v1/approvals" | grep -o "\"approval_id\":\"$1[^\"]*\"" |
    cut -d'"' -f4
}

# run_of AGENT: its newest run.
run_of() {
  curl -sS "$PORTCULLIS_API_URL/v1/runs" | sed 's/{"run_id"/\n&/g' | grep "\"agent\":\"$1\"" |
    field run_id
}

# effects WORD: how often a tool's process wrote it.
effects() {
  find . -name effects.log -exec cat {} + | grep -c "^$1" || true
}

# busy URL: what the worker says of itself.
busy() { curl -sS "$1/metrics" | sed -n 's/^portcullis_worker_busy[^ ]* //p'; }

# ended RUN CODE: follows a run to its end and insists on how.
ended() {
  local code=0
  "$PORTCULLIS" runs follow "$1" >/dev/null || code=$?
  [ "$code" -eq "$2" ] || die "run $1 ended with code $code, not $2"
}

# the_waits METRICS: both runs are parked, the only slot is free, another run uses it.
the_waits() {
  say "two runs wait, and hold nothing"
  "$PORTCULLIS" waits
  echo "busy workers: $(busy "$1")"
  [ "$(busy "$1")" = 0 ] || die "a waiting run holds a slot"
  say "meanwhile another run finishes on the only slot"
  "$PORTCULLIS" runs start counter --wait
}

# the_ends DEPLOY REPORT: one approved and run once, one denied by time and not run.
the_ends() {
  say "what was approved ran once"
  ended "$1" 0
  "$PORTCULLIS" runs why "$1"
  [ "$(effects deployed)" = 1 ] || die "deployed $(effects deployed) times"
  say "what nobody answered did not run"
  ended "$2" 5
  "$PORTCULLIS" runs why "$2"
  [ "$(effects reported)" = 0 ] || die "reported without a yes"
  say "effects, from the tools' own file: deployed 1, reported 0, counted $(effects counted)"
}
