#!/usr/bin/env bash
# Refresh requirements/*.txt: every version, with its hashes, for every supported Python on Linux and macOS.
# The only place that needs uv: from $UV, from PATH, or installed for the moment.
#   tools/pins.sh                  move what pyproject.toml demands, keep the rest
#   tools/pins.sh --upgrade        move everything to its newest version
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

uv=${UV:-$(command -v uv || true)}
if [[ -z $uv ]]; then
  python3 -m venv "$scratch/venv"
  "$scratch/venv/bin/python" -m pip install -qq --disable-pip-version-check uv
  uv=$scratch/venv/bin/uv
fi

# pin OUT FROM UV-ARGUMENTS...: uv keeps the versions that it finds in OUT, unless it is told to move them.
# Neither an index nor a path is written down: where packages come from is the reader's business, what they are is not.
pin() {
  local pins=$1 from=$2 new=$scratch/new.txt
  shift 2
  rm -f -- "$new"
  if [[ -f $pins ]]; then cp -- "$pins" "$new"; fi
  "$uv" pip compile "$@" \
    --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --no-header --quiet \
    --output-file "$new" >/dev/null
  {
    echo "# Made by \`./dev pins\` from $from; do not edit."
    cat -- "$new"
  } >"$scratch/final.txt"
  cp -- "$scratch/final.txt" "$pins"
  echo "$pins: $(grep -c '==' "$pins") packages"
}

pin requirements/dev.txt 'pyproject.toml (base, cli, server, postgres, mysql, redis, otel, dev)' pyproject.toml --extra cli --extra server --extra postgres --extra mysql --extra redis --extra otel --group dev "$@"
for peer in requirements/bench-*.in; do # the benchmark measures each in an environment of its own
  pin "${peer%.in}.txt" "${peer##*/}" "$peer" "$@"
done
pin requirements/valkey.txt valkey.in requirements/valkey.in "$@" # a server that the tests start; not in the environment, as it is a pytest plugin too
pin requirements/node.txt node.in requirements/node.in "$@" # for the tests of the worker in JavaScript, where the machine has none
