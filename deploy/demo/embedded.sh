#!/usr/bin/env bash
# The main job in one process on the embedded store: `make demo`.
source "$(dirname "${BASH_SOURCE[0]}")/story.sh"

(cd "$ROOT" && cargo build --locked --quiet -p portcullis)
start_story
write_agents default

say "one process, one SQLite file, one worker slot"
serve up.log "$PORTCULLIS" up
PORTCULLIS_API_URL=$(listening up.log)
export PORTCULLIS_API_URL
echo "$PORTCULLIS_API_URL"

say "a signed webhook starts a run; a reminder starts another"
deploy=$(send_webhook)
echo "webhook:  $deploy"
report=$(until_line "the reminder fires" run_of reporter)
echo "reminder: $report"
request=$(until_line "the deployment is asked about" approval_of "$deploy")
until_line "the report is asked about" approval_of "$report" >/dev/null

the_waits "$PORTCULLIS_API_URL"

say "somebody says yes to the deployment"
"$PORTCULLIS" approvals approve "$request"

the_ends "$deploy" "$report"
