#!/usr/bin/env bash
# Fuzzes each target (or the one named) for some seconds. What adds coverage is merged into the kept corpus,
# and an input that crashes is kept there too, so that every later `make test` replays it.
set -euo pipefail
build=$1 only=$2 seconds=$3
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
status=0 count=0
for source in tests/fuzz/*.cpp; do
  [ -e "$source" ] || break
  stem=$(basename "$source" .cpp)
  [ -z "$only" ] || [ "$only" = "$stem" ] || continue
  count=$((count + 1))
  kept=tests/fuzz/corpus/$stem grown=$build/corpus/$stem
  mkdir -p "$kept" "$grown"
  echo "== $stem, $seconds s"
  if ! "$build/fuzz_$stem" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
    -verbosity=0 -artifact_prefix="$kept/" "$grown" "$kept"; then
    status=1
  fi
  "$build/fuzz_$stem" -merge=1 -verbosity=0 "$kept" "$grown" || status=1
  echo "   corpus: $(find "$kept" -type f | wc -l) inputs"
done
[ "$count" -gt 0 ] || { echo "no fuzz target named '$only' in tests/fuzz" >&2; exit 2; }
exit $status
