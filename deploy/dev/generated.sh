#!/usr/bin/env bash
# Are the files that the code generates the ones that are committed?
set -euo pipefail
cd "$(dirname "$0")/../.."

# One entry per file: "<committed file>|<command that prints it>".
generated=(
  "docs/schema/portcullis.schema.json|cargo run --locked --quiet -p portcullis -- schema config"
  "docs/schema/doctor.schema.json|cargo run --locked --quiet -p portcullis -- schema doctor"
  "docs/reference/configuration.md|cargo run --locked --quiet -p portcullis -- help configuration"
  "docs/reference/command-line.md|cargo run --locked --quiet -p portcullis -- help command-line"
)

for entry in "${generated[@]}"; do
  file=${entry%%|*}
  command=${entry#*|}
  if ! diff -u "$file" <(bash -c "$command"); then
    echo "$file is stale; renew it: $command > $file" >&2
    exit 1
  fi
done
