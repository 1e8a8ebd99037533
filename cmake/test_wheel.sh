#!/usr/bin/env bash
# test_wheel.sh DEVELOPMENT_ENVIRONMENT NEW_ENVIRONMENT [FRAMEWORK...]
#
# Builds the wheel and installs it with the extras "jax" and "sycl" into a clean environment, as `pip install .[jax,sycl]` does
# for a user, then runs the smaller test set there, outside the checkout's packages. The environment is of Python 3.12 with the
# newest JAX if a Python 3.12 is found; else it says so and takes the development environment's Python. A sample of programs runs
# with the oldest llvmlite, rich and typer, too. For each FRAMEWORK (tensorflow, torch) the wheel is then installed, used and
# uninstalled in an environment that is made for this and removed.
set -euo pipefail
cd "$(dirname "$0")/.."
development=$1
environment=$(realpath -m "$2")
frameworks=("${@:3}")
root=$PWD

source cmake/find_python.sh
if ! python=$(PYTHON='' find_python 3.12 3.12); then
  echo "SKIPPED: no Python 3.12 found, so the newest JAX is not tested; testing the wheel with $development's Python"
  python=$development/bin/python
fi

# The same interpreter and dependencies in the same month: keep the environment, and only install the new wheel. A new month
# brings the newest JAX of that time.
wanted=$("$python" -c 'import sys; print(sys.version)'; sha256sum pyproject.toml; date +%Y-%m)
if [[ $(cat "$environment/stamp" 2>/dev/null) != "$wanted" ]]; then
  if [[ -e $environment && ! -f $environment/pyvenv.cfg && -n $(ls -A "$environment") ]]; then
    echo "$environment is not a virtual environment, and is left as it is: name another folder with TRIPONT_VENV_WHEEL" >&2
    exit 1
  fi
  rm -rf "$environment"
  "$python" -m venv "$environment"
fi

rm -rf build/wheel && mkdir -p build/wheel
echo "building the wheel"
# With the bindings by which the tests of callbacks and host arrays keep a device busy; `make wheel` tries one without them.
"$environment/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/wheel \
  -C cmake.define.TRIPONT_TESTING=ON -C build-dir=build/wheel-testing .
wheel=$(echo build/wheel/tripont-*.whl)
"$environment/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel[jax,sycl,test]"
"$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheel"
echo "$wanted" >"$environment/stamp"

# A copy of the tests, so that the checkout's folders do not shadow the installed package.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r tests examples pyproject.toml "$copy"
# The C API, which is compared with jaxlib's, and which packages there are for which Python.
cp --parents core/runtime/ffi/c_api.h cmake/develop.py "$copy"
cd "$copy"
"$environment/bin/python" - <<'EOF'
import jax
import sys
import tripont

print(f"testing {tripont.__path__[0]} with Python {sys.version.split()[0]} and JAX {jax.__version__}")
assert "site-packages" in tripont.__path__[0], tripont.__path__
EOF

"$environment/bin/python" -m pytest -n auto --maxprocesses 4 --dist worksteal -m "not slow" tests/core/runtime/ffi tests/integration tests/frontends/jax tests/frontends/jax_devices tests/cli
"$environment/bin/tripont" doctor

echo "with the oldest llvmlite, rich and typer that pyproject.toml allows"
mapfile -t oldest < <(sed -n -E '/^dependencies/,/^]/s/^ *"(llvmlite|rich|typer)>=([0-9.]+)",$/\1==\2.*/p' pyproject.toml)
"$environment/bin/python" -m pip install --quiet --disable-pip-version-check --target oldest "${oldest[@]}"
for sample in sample integer_products; do
  PYTHONPATH=$PWD/oldest "$environment/bin/python" -m "tests.cpus.$sample"
done
PYTHONPATH=$PWD/oldest "$environment/bin/tripont" doctor

cd "$root"
for framework in ${frameworks[@]+"${frameworks[@]}"}; do
  echo "installing the wheel beside $framework in a clean environment"
  rm -rf "$environment-$framework"
  "$python" cmake/check_install.py "$wheel" "$environment-$framework" "$framework"
  rm -rf "$environment-$framework"
done
