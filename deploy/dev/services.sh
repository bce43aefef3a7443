#!/usr/bin/env bash
# A private Redis and RabbitMQ to develop against, on free loopback ports, as this user.
#
# usage: services.sh up|down
set -euo pipefail
cd "$(dirname "$0")/../.."
state=.portcullis-dev
start_seconds_max=120

is_up() {
  [ -f $state/pid ] && kill -0 "$(cat $state/pid)" 2>/dev/null
}

up() {
  if is_up; then
    cat $state/env
    return
  fi
  bash deploy/dev/need.sh redis-server rabbitmq-server
  cargo build --locked --quiet -p portcullis-tests --bin with-servers
  mkdir -p $state
  rm -f $state/env $state/pid
  # Lives until `down` ends the sleep; the servers end with it.
  local hold='{ echo "export PORTCULLIS_STORE_URL=$PORTCULLIS_STORE_URL"
    echo "export PORTCULLIS_BUS_URL=$PORTCULLIS_BUS_URL"; } > "$0/env.new"
    echo $$ > "$0/pid"; mv "$0/env.new" "$0/env"; exec sleep infinity'
  setsid "${CARGO_TARGET_DIR:-target}/debug/with-servers" --urls sh -c "$hold" $state \
    </dev/null >$state/log 2>&1 &
  local holder=$!
  for _ in $(seq $((start_seconds_max * 10))); do
    if [ -f $state/env ]; then
      cat $state/env
      return
    fi
    if ! kill -0 $holder 2>/dev/null; then
      break
    fi
    sleep 0.1
  done
  echo "the servers did not start; see $state/log:" >&2
  tail -n 20 $state/log >&2
  exit 1
}

down() {
  if is_up; then
    kill "$(cat $state/pid)"
  fi
  rm -f $state/pid $state/env
}

case ${1:-} in
  up | down) "$1" ;;
  *)
    echo "usage: services.sh up|down" >&2
    exit 2
    ;;
esac
