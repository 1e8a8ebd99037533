#!/usr/bin/env bash
# make_environment.sh FOLDER: a virtual environment in FOLDER, of the first Python that pyproject.toml names and that really runs.
# An environment that is there and works is kept; a folder that holds anything else is never removed. PYTHON=... in the
# environment names the interpreter to use.
# make_environment.sh --interpreter: print the interpreter that a new environment would be made with.
set -euo pipefail
folder=$1

here=$(dirname "${BASH_SOURCE[0]}")
mapfile -t versions < <(sed -n 's/.*"Programming Language :: Python :: \(3\.[0-9]*\)".*/\1/p' "$here/../pyproject.toml")
lowest=${versions[0]}
highest=${versions[-1]}
# shellcheck source=cmake/find_python.sh
source "$here/find_python.sh"

# An environment whose making was interrupted has an interpreter and lacks pip.
if [[ -x $folder/bin/python ]] && works "$folder/bin/python" "$lowest" "$highest" && "$folder/bin/python" -m pip --version >/dev/null 2>&1; then
  exit 0
fi
if [[ -e $folder && ! -f $folder/pyvenv.cfg && -n $(ls -A "$folder") ]]; then
  echo "$folder is not a virtual environment, and is left as it is: name another folder with TRIPONT_VENV" >&2
  exit 1
fi

if ! python=$(find_python "$lowest" "$highest"); then
  echo "no Python $lowest to $highest found (with venv, ensurepip and Python.h; Debian: apt-get install python3-venv python3-dev):" \
    "install one, or name it: make dev PYTHON=/path/to/python" >&2
  exit 1
fi
if [[ $folder == --interpreter ]]; then
  "$python" -c 'import sys; print(sys.executable)'
  exit 0
fi
echo "making $folder with $("$python" -c 'import sys; print(sys.version.split()[0], "of", sys.executable)')"
rm -rf "$folder"
"$python" -m venv "$folder"
