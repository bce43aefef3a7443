#!/usr/bin/env bash
# Prints definitions.json with the salted hash of each user's password, read from a file of the
# user's name. RabbitMQ loads the result; the passwords themselves are in neither.
#
# usage: make-users.sh <folder with the files scheduler, worker, approver> > definitions.json
set -euo pipefail

password_letters_min=16
if [ $# -ne 1 ]; then
  echo "usage: make-users.sh <folder with a password file per user>" >&2
  exit 2
fi
secrets=$1
definitions=$(dirname "$0")/definitions.json

# RabbitMQ's hash: base64(salt + sha256(salt + password)), with a salt of four bytes.
hash_of() {
  local salt digest
  salt=$(od -An -N4 -tx1 /dev/urandom | tr -d ' \n')
  digest=$({ bytes "$salt" && printf %s "$1"; } | sha256sum | cut -d ' ' -f 1)
  bytes "$salt$digest" | base64 -w 0
}

# The bytes that a string of hex digits names.
bytes() {
  # shellcheck disable=SC2059 # the format is made of hex escapes only
  printf "$(printf %s "$1" | sed 's/../\\x&/g')"
}

text=$(cat "$definitions")
for user in scheduler worker approver; do
  file=$secrets/$user
  if [ ! -r "$file" ]; then
    echo "$file: cannot be read; put the password of RabbitMQ's user $user there" >&2
    exit 1
  fi
  password=$(cat "$file")
  if [ ${#password} -lt $password_letters_min ]; then
    echo "$file: shorter than $password_letters_min letters; make one: openssl rand -hex 24" >&2
    exit 1
  fi
  open="\"name\": \"$user\", \"password_hash\": \""
  if [[ $text != *"$open\""* ]]; then
    echo "$definitions: no user $user with an empty password_hash; restore the shipped file" >&2
    exit 1
  fi
  text=${text/"$open"/"$open$(hash_of "$password")"}
done
printf '%s\n' "$text"
