#!/usr/bin/env bash
# A worker in bash: claims jobs over HTTP and runs a command for each, with the job's params on its stdin. If the command
# ends well, what it printed is the job's result (as JSON, if it is); if not, what it said on stderr is the error, and the job is retried.
#
#   DIBS_API_KEY=dibs_... examples/worker.sh TASK COMMAND [ARGUMENTS]
#
#   DIBS_URL      where the server is (http://127.0.0.1:8642)
#   DIBS_API_KEY  a key with the scope work; none if the server asks for none
#   DIBS_FENCE    set for the command: whoever writes elsewhere sends it along, and refuses writes with a lower one there
#
# Needs curl, and python3 to read and write JSON.
set -euo pipefail

usage='usage: worker.sh TASK COMMAND [ARGUMENTS]'
url=${DIBS_URL:-http://127.0.0.1:8642}
task=${1:?$usage}
shift
if ! command -v "${1:?$usage}" >/dev/null; then
  printf 'worker.sh: %s cannot be run\n' "$1" >&2
  exit 2
fi
worker=$(uname -n | tr -c 'a-zA-Z0-9_\n-' '-')-$$
lease=30
scratch=$(mktemp -d)
id='' handler='' stopping=''

# post PATH: sends the body on stdin; sets $status, and leaves the answer in $scratch/reply.
# A claim that waits is called off when we are told to stop: the server then gives back what it may just have got.
post() {
  : >"$scratch/status" # here, and not by the call alone: it may be called off before it has begun
  curl -sS -o "$scratch/reply" -w '%{http_code}' -H 'Content-Type: application/json' --data-binary @- \
    --config <(printf 'header = "X-API-Key: %s"\n' "${DIBS_API_KEY:-}") "$url$1" <&0 >"$scratch/status" &
  local call=$!
  while kill -0 "$call" 2>/dev/null; do
    wait "$call" || true # it has ended, or a signal came
    if [[ -n $stopping && $1 == */claim ]]; then kill "$call" 2>/dev/null || true; fi
  done
  status=$(cat -- "$scratch/status")
}

# of EXPRESSION: prints what Python finds in the task of the last answer.
of() { python3 -c "import json, sys; task = json.load(open(sys.argv[1]))['task']; print($1)" "$scratch/reply"; }

# claim_named [MORE]: the body that names the claim we hold.
claim_named() { printf '{"worker_id": "%s", "fence": %s, "lease_token": "%s"%s}' "$worker" "$fence" "$token" "${1:-}"; }

# ending CODE: how the command ended, as the rest of that body.
ending() {
  python3 - "$1" "$scratch/out" "$scratch/err" <<'EOF'
import json, sys
code, out, err = int(sys.argv[1]), *(open(name, errors="replace").read() for name in sys.argv[2:])
if code == 0:
    try:
        out = json.loads(out)  # what is JSON is kept as such, anything else as a text
    except ValueError:
        pass
ended = {"success": True, "result": out} if code == 0 else {"success": False, "error_message": err or f"exit {code}"}
print("," + json.dumps(ended)[1:-1])
EOF
}

# Runs beside the command: keeps the claim, and stops the command if the claim was lost.
keep() {
  scratch=$scratch/keeper
  mkdir -p -- "$scratch"
  while sleep $((lease / 3)); do
    post "/api/tasks/$id/heartbeat" < <(claim_named)
    if [[ $status == 409 || $status == 404 ]]; then kill "$handler" 2>/dev/null; fi
  done
}

work() {
  id=$(of 'task["id"]') fence=$(of 'task["fence"]') token=$(of 'task["lease_token"]')
  if [[ -n $stopping ]]; then return; fi
  of 'json.dumps(task["params"])' >"$scratch/params"
  DIBS_FENCE=$fence "$@" <"$scratch/params" >"$scratch/out" 2>"$scratch/err" &
  handler=$!
  keep >/dev/null 2>&1 &
  local keeper=$! code=0
  wait "$handler" || code=$?
  kill "$keeper" 2>/dev/null
  wait "$keeper" 2>/dev/null || true
  handler=''
  if [[ -z $stopping ]]; then settle "/api/tasks/$id/complete" "$(ending "$code")"; fi
}

# settle PATH [MORE]: the same again until it is answered: settling twice is safe.
settle() {
  local tries
  for tries in 1 2 3 4 5 6 7 8 9 10; do
    post "$1" < <(claim_named "${2:-}")
    if [[ $status == 200 || $status == 4?? ]]; then break; fi
    sleep "$tries"
  done
  local told=${1##*/}
  if [[ $status == 200 && $told == complete ]]; then
    told=$(python3 -c "import json, sys; print('failed, will be tried again' if (r := json.load(open(sys.argv[1])))['will_retry'] \
      else r['task']['status'])" "$scratch/reply")
  fi
  printf '%s: %s (%s)\n' "$id" "$told" "$status"
  if [[ $told == failed* ]]; then tail -n 1 -- "$scratch/err"; fi
  id=''
}

stop() {
  stopping=yes
  if [[ -n $handler ]]; then kill "$handler" 2>/dev/null || true; fi
}

leave() {
  if [[ -n $id ]]; then settle "/api/tasks/$id/release"; fi
  rm -rf -- "$scratch"
}

trap stop TERM INT
trap leave EXIT

while [[ -z $stopping ]]; do
  post /api/tasks/claim <<EOF
{"worker_id": "$worker", "task_types": ["$task"], "lease_seconds": $lease, "wait_seconds": 20}
EOF
  case $status in
    200) work "$@" ;;
    404) ;; # nothing came; ask again
    401 | 403 | 400)
      cat -- "$scratch/reply" >&2
      exit 1
      ;;
    *) if [[ -z $stopping ]]; then sleep 1; fi ;; # the server is away, or says to wait
  esac
done
