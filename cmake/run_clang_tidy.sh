#!/usr/bin/env bash
# run_clang_tidy.sh FILE...: clang-tidy with the compile commands of the development build. The command line of
# each file is GCC's, so the folder of GCC's own headers is named where clang finds none.
set -euo pipefail
cd "$(dirname "$0")/.."
commands=build/cmake/compile_commands.json
if [[ ! -f $commands ]]; then
  echo "run \`make dev\` first: $commands is missing" >&2
  exit 1
fi
known=()
for file in "$@"; do
  if grep -q "\"file\": \".*/$file\"" "$commands"; then
    known+=("$file")
  fi
done
[[ ${#known[@]} -eq 0 ]] && exit 0
printf '%s\n' "${known[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p build/cmake 2>/dev/null
