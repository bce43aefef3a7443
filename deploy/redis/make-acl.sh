#!/usr/bin/env bash
# Prints a Redis ACL file for Portcullis: nobody without a password, and nobody who may empty the
# store, change its settings or copy it elsewhere.
#
# usage: make-acl.sh <folder with the files scheduler, worker> > users.acl
set -euo pipefail

password_letters_min=16
if [ $# -ne 1 ]; then
  echo "usage: make-acl.sh <folder with a password file per user>" >&2
  exit 2
fi

echo "user default off resetchannels -@all"
for user in scheduler worker; do
  file=$1/$user
  if [ ! -r "$file" ]; then
    echo "$file: cannot be read; put the password of Redis's user $user there" >&2
    exit 1
  fi
  password=$(cat "$file")
  if [ ${#password} -lt $password_letters_min ]; then
    echo "$file: shorter than $password_letters_min letters; make one: openssl rand -hex 24" >&2
    exit 1
  fi
  digest=$(printf %s "$password" | sha256sum | cut -d ' ' -f 1)
  # What the start-up check reads is given back: INFO and CONFIG GET.
  echo "user $user on #$digest ~* &* +@all -@dangerous -@admin +info +config|get"
done
