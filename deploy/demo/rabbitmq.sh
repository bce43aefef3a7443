#!/usr/bin/env bash
# The main job on RabbitMQ and Redis, with an approver service in Python:
# `make demo BACKEND=rabbitmq`. Starts its own private servers and stops them.
source "$(dirname "${BASH_SOURCE[0]}")/story.sh"

if [ -z "${PORTCULLIS_STORE_URL:-}" ]; then
  bash "$ROOT/deploy/dev/need.sh" redis-server rabbitmq-server python3
  (cd "$ROOT" && cargo build --locked --quiet -p portcullis -p portcullis-tests --bins)
  exec "$TARGET/debug/with-servers" --urls bash "${BASH_SOURCE[0]}"
fi

# A Python that has pika and PyNaCl: the system's, or one of our own.
python_with_pika() {
  local venv=$TARGET/demo-python python
  for python in python3 /usr/bin/python3 "$venv/bin/python3"; do
    if "$python" -c 'import nacl.signing, pika' 2>/dev/null; then
      echo "$python"
      return
    fi
  done
  { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet pika PyNaCl; } >&2 ||
    die "it needs Python with pika and PyNaCl (Debian: apt-get install python3-pika python3-nacl)"
  echo "$venv/bin/python3"
}

python=$(python_with_pika)
start_story
write_agents ops
openssl rand -hex 32 >robot.key
public=$("$python" -c 'import base64, nacl.signing
key = nacl.signing.SigningKey(bytes.fromhex(open("robot.key").read().strip()))
print(base64.b64encode(bytes(key.verify_key)).decode())')
printf '\n[approvers.robot]\npools = ["ops"]\npublic_keys = { robot-1 = "%s" }\n' "$public" \
  >>portcullis.toml
export PORTCULLIS_BUS_DECLARE=arguments PORTCULLIS_WORKER_METRICS_LISTEN=127.0.0.1:0

say "a scheduler, and a worker with one slot, on RabbitMQ and Redis"
serve scheduler.log "$PORTCULLIS" scheduler
PORTCULLIS_API_URL=$(listening scheduler.log)
export PORTCULLIS_API_URL
echo "$PORTCULLIS_API_URL"
serve worker.log "$PORTCULLIS" worker
metrics=$(listening worker.log)

say "an approver service of thirty lines: yes to deployments, no opinion on anything else"
serve approver.log env POOL=ops APPROVER=robot KEY_ID=robot-1 KEY_FILE=robot.key THINK_SECONDS=3 \
  "$python" "$ROOT/deploy/approvers/python/approver.py"
until_line "the approver listens" grep decides approver.log

say "a reminder starts a run; a signed webhook starts another"
report=$(until_line "the reminder fires" run_of reporter)
echo "reminder: $report"
deploy=$(send_webhook)
echo "webhook:  $deploy"
until_line "the report is asked about" approval_of "$report" >/dev/null
until_line "the deployment is asked about" approval_of "$deploy" >/dev/null

the_waits "$metrics"
the_ends "$deploy" "$report"
