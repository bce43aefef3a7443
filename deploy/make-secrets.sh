#!/usr/bin/env bash
# Makes the passwords that compose.yaml needs, once, in a folder that only you can enter.
#
# usage: make-secrets.sh [folder, by default `secrets` beside this file]
set -euo pipefail
folder=${1:-$(dirname "$0")/secrets}

if [ -e "$folder" ]; then
  echo "$folder exists: its passwords are in use; move it away to make new ones" >&2
  exit 1
fi
mkdir -p -m 0700 "$folder"
for server in rabbitmq redis; do
  mkdir "$folder/$server"
  for user in scheduler worker; do
    od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$folder/$server/$user"
  done
done
od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$folder/rabbitmq/approver"

for user in scheduler worker; do
  printf 'redis://%s:%s@redis:6379/0' "$user" "$(cat "$folder/redis/$user")" \
    >"$folder/$user-store-url"
  printf 'amqp://%s:%s@rabbitmq:5672/portcullis' "$user" "$(cat "$folder/rabbitmq/$user")" \
    >"$folder/$user-bus-url"
done
# The containers' users read them; nobody else can enter the folder.
find "$folder" -mindepth 1 -type d -exec chmod 0755 {} +
find "$folder" -type f -exec chmod 0444 {} +
echo "made $folder; an approver service logs in as: approver, $folder/rabbitmq/approver"
