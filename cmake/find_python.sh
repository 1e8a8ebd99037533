# To be sourced: Python interpreters that can make an environment in which the package is built.

# works PYTHON LOWEST HIGHEST: whether PYTHON runs (shims of version managers exist without an interpreter behind them), is of a
# version from LOWEST to HIGHEST ("3.11"), and has what building needs: venv, ensurepip and the headers.
works() {
  "$1" - "$2" "$3" >/dev/null 2>&1 <<'PYTHON'
import ensurepip, os, sys, sysconfig, venv
lowest, highest = (tuple(map(int, version.split("."))) for version in sys.argv[1:])
has_headers = os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
sys.exit(not (lowest <= sys.version_info[:2] <= highest and has_headers))
PYTHON
}

# find_python LOWEST HIGHEST: prints the first that works: $PYTHON, those on PATH, those of version managers. Fails if none does.
find_python() {
  local minor candidate candidates=("${PYTHON:-}")
  for ((minor = ${1#3.}; minor <= ${2#3.}; ++minor)); do candidates+=("python3.$minor"); done
  candidates+=(python3 python)
  for ((minor = ${1#3.}; minor <= ${2#3.}; ++minor)); do
    candidates+=("${HOME:-}"/.pyenv/versions/"3.$minor".*/bin/python /opt/python/cp"3$minor"-*/bin/python)
  done
  for candidate in "${candidates[@]}"; do
    if [[ -n $candidate ]] && works "$candidate" "$1" "$2"; then
      echo "$candidate"
      return
    fi
  done
  return 1
}
