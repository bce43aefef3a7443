#!/bin/sh
# Reads the two addresses with passwords from files, then becomes portcullis. A variable given
# directly wins.
set -eu

from_file() {
  eval "value=\${$1:-} file=\${$1_FILE:-}"
  unset "$1_FILE"
  if [ -z "$value" ] && [ -n "$file" ]; then
    value=$(cat "$file") || {
      echo "$1_FILE: cannot read $file" >&2
      exit 2
    }
    export "$1=$value"
  fi
}

from_file PORTCULLIS_STORE_URL
from_file PORTCULLIS_BUS_URL
exec portcullis "$@"
