#!/usr/bin/env bash
# Makes sure that the programs named exist. As root it installs what is missing, without starting
# any service; otherwise it names the packages and ends with 2.
#
# usage: need.sh redis-server|rabbitmq-server|python3|pika|pynacl|faketime ...
set -euo pipefail

package_of() {
  case $1 in
    redis-server | rabbitmq-server | python3 | faketime) echo "$1" ;;
    pika) echo python3-pika ;;
    pynacl) echo python3-nacl ;;
    *)
      echo "need.sh: unknown need: $1" >&2
      exit 2
      ;;
  esac
}

has() {
  case $1 in
    # The one on PATH drops its privileges and settings; tests start the real one.
    rabbitmq-server)
      test -x /usr/lib/rabbitmq/bin/rabbitmq-server || test -x /opt/rabbitmq/sbin/rabbitmq-server
      ;;
    pika) /usr/bin/python3 -c 'import pika' 2>/dev/null ;;
    pynacl) /usr/bin/python3 -c 'import nacl.signing' 2>/dev/null ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

missing=()
for need in "$@"; do
  package=$(package_of "$need")
  has "$need" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "missing: ${missing[*]}" >&2
  echo "install with: sudo apt-get install ${missing[*]}" >&2
  exit 2
fi

echo "installing ${missing[*]}"
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  # Debian starts a service when it installs one; ours are private and started by the tests.
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >$policy
  chmod +x $policy
fi
export DEBIAN_FRONTEND=noninteractive
minutes_max=15
timeout ${minutes_max}m apt-get update -qq </dev/null
timeout ${minutes_max}m apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
