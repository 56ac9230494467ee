#!/usr/bin/env bash
# A worker in bash, with curl and jq: claims jobs over HTTP, extends them while it works, settles them, gives back on SIGTERM.
#   DIBS_URL=http://127.0.0.1:8642 DIBS_API_KEY=dibs_... examples/workers/worker.sh
set -um # m: what runs in the background is a process group of its own, and is stopped as a whole
url=${DIBS_URL:-http://127.0.0.1:8642} lease=${DIBS_LEASE:-30}
scratch=$(mktemp -d) child='' stopping=''
halt() { [[ -z $child ]] || kill -- "-$child" 2>/dev/null; }
trap 'rm -rf -- "$scratch"' EXIT
trap halt USR1 # the claim was lost
trap 'stopping=yes; halt' TERM INT

# The work itself: put yours here. Params on stdin, the result on stdout as JSON, what went wrong on stderr.
# Send $fence along with what you write elsewhere, and refuse lower ones there.
work() {
  local params=$(cat)
  sleep "$(jq -r '.seconds // 0' <<<"$params")"
  jq 'if .text then .text | ascii_upcase else error("there is no text") end' <<<"$params"
}
# post PATH BODY [FILE]: prints the status, 000 if no answer came; the answer goes to the file. No list of processes shows the key.
post() {
  curl -sS -m 60 -o "${3:-/dev/null}" -w '%{http_code}' -H 'Content-Type: application/json' --data-binary @- \
    --config <(printf 'header = "X-API-Key: %s"\n' "${DIBS_API_KEY:-}") "$url$1" <<<"$2" 2>/dev/null
}
# run COMMAND: waits for its end, and stops it when we are told to, whenever that is.
run() {
  "$@" <&0 & child=$!
  [[ -z $stopping ]] || halt
  while wait "$child" && code=0 || code=$?; kill -0 "$child" 2>/dev/null; do :; done
  child='' && return "$code"
}
# Beside the work: extends the claim, and has the work stopped if it was lost.
keep() {
  while sleep "$(jq -n "$lease / 3")"; do
    case $(post "/api/tasks/$id/heartbeat" "$claim") in 404 | 409) kill -USR1 $$ ;; esac
  done
}
while [[ -z $stopping ]]; do
  wish="{\"worker_id\": \"bash-$$\", \"task_types\": [\"shout\"], \"lease_seconds\": $lease, \"wait_seconds\": 20}"
  run post /api/tasks/claim "$wish" "$scratch/reply" >"$scratch/status"
  case $(cat "$scratch/status") in
    200) ;;
    404) continue ;;
    400 | 401 | 403) cat "$scratch/reply" >&2; exit 1 ;;
    *) sleep 1; continue ;; # the server is away, or says to wait; or we are to stop
  esac
  read -r id fence < <(jq -r '.task | "\(.id) \(.fence)"' "$scratch/reply")
  claim=$(jq -c '.task | {fence, lease_token}' "$scratch/reply") && jq -c .task.params "$scratch/reply" >"$scratch/params"
  keep & keeper=$!
  run work <"$scratch/params" >"$scratch/out" 2>"$scratch/err"
  case $?$stopping in
    0) path=complete body=$(jq -c --slurpfile out "$scratch/out" '. + {success: true, result: $out[0]}' <<<"$claim") ;;
    *yes) path=release body=$claim ;;
    *) path=complete body=$(jq -c --rawfile err "$scratch/err" '. + {success: false, error_message: $err}' <<<"$claim") ;;
  esac
  kill -- "-$keeper" && wait "$keeper" 2>/dev/null
  # The same again until it is answered: settling twice is safe.
  until status=$(post "/api/tasks/$id/$path" "$body") && [[ $status =~ ^(2..|4[01].|422)$ ]]; do sleep 1; done
  printf '%s: %s, %s\n' "$id" "$path" "$status"
done
