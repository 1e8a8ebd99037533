#!/usr/bin/env bash
# run_clang_tidy.sh [FILE...]: clang-tidy of these files, or of all, JOBS at a time (default: one a core). The compile
# commands are like those of the development build, but of each file alone: without precompiled headers, so that a file
# that lacks an include is seen. Files that the build does not compile are not read, and named.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(sed -n 's/^_Python_EXECUTABLE:INTERNAL=//p' build/cmake/CMakeCache.txt 2>/dev/null || true)
if [[ -z $python ]]; then
  echo "run \`make dev\` first: build/cmake is missing" >&2
  exit 1
fi
commands=build/lint/compile_commands.json
cmake -S . -B build/lint -G Ninja -DPython_EXECUTABLE="$python" -DCMAKE_UNITY_BUILD=OFF \
  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DTRIPONT_OUTSIDE=ON >/dev/null
if [[ $# -eq 0 ]]; then
  mapfile -t files < <(git ls-files '*.cc')
  set -- "${files[@]}"
fi
known=()
for file in "$@"; do
  if grep -q "\"file\": \".*/$file\"" "$commands"; then
    known+=("$file")
  else
    echo "not read, since the build does not compile it: $file" >&2
  fi
done
[[ ${#known[@]} -eq 0 ]] && exit 0
printf '%s\n' "${known[@]}" | xargs -P "${JOBS:-$(nproc)}" -n 1 clang-tidy --quiet -p build/lint 2>/dev/null
