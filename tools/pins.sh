#!/usr/bin/env bash
# Refresh requirements/dev.txt: every version, with its hashes, for every supported Python on Linux and macOS.
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

pins=requirements/dev.txt
new=$scratch/dev.txt
if [[ -f $pins ]]; then cp -- "$pins" "$new"; fi # uv keeps the versions that it finds here

# Neither an index nor a path is written down: where packages come from is the reader's business, what they are is not.
"$uv" pip compile pyproject.toml --extra cli --extra server --group dev \
  --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --no-header --quiet \
  --output-file "$new" "$@" >/dev/null

{
  echo '# Made by `./dev pins` from pyproject.toml (base, cli, server, dev); do not edit.'
  cat -- "$new"
} >"$scratch/final.txt"
cp -- "$scratch/final.txt" "$pins"
echo "$pins: $(grep -c '==' "$pins") packages"
