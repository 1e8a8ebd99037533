#!/usr/bin/env bash
# make_environment.sh FOLDER: a virtual environment in FOLDER, of the first Python 3.11 to 3.13 that really runs.
# An environment that is there and works is kept; a folder that holds anything else is never removed. PYTHON=... in the
# environment names the interpreter to use.
# make_environment.sh --interpreter: print the interpreter that a new environment would be made with.
set -euo pipefail
folder=$1

works() { # Shims of version managers exist without an interpreter behind them, so each candidate is run.
  "$1" -c '
import ensurepip, os, sys, sysconfig, venv
has_headers = os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
sys.exit(not ((3, 11) <= sys.version_info[:2] <= (3, 13) and has_headers))' >/dev/null 2>&1
}

# An environment whose making was interrupted has an interpreter and lacks pip.
if [[ -x $folder/bin/python ]] && works "$folder/bin/python" && "$folder/bin/python" -m pip --version >/dev/null 2>&1; then
  exit 0
fi
if [[ -e $folder && ! -f $folder/pyvenv.cfg && -n $(ls -A "$folder") ]]; then
  echo "$folder is not a virtual environment, and is left as it is: name another folder with TRIPONT_VENV" >&2
  exit 1
fi

candidates=("${PYTHON:-}" python3.11 python3.12 python3.13 python3 python)
for version in 3.11 3.12 3.13; do
  candidates+=("${HOME:-}"/.pyenv/versions/"$version"*/bin/python /opt/python/cp"${version/./}"-*/bin/python)
done
for candidate in "${candidates[@]}"; do
  if [[ -n $candidate ]] && works "$candidate"; then
    if [[ $folder == --interpreter ]]; then
      "$candidate" -c 'import sys; print(sys.executable)'
      exit 0
    fi
    echo "making $folder with $("$candidate" -c 'import sys; print(sys.version.split()[0], "of", sys.executable)')"
    rm -rf "$folder"
    "$candidate" -m venv "$folder"
    exit 0
  fi
done
echo "no Python 3.11 to 3.13 found (with venv, ensurepip and Python.h; Debian: apt-get install python3-venv python3-dev):" \
  "install one, or name it: make dev PYTHON=/path/to/python" >&2
exit 1
