#!/usr/bin/env bash
# Fuzzes each target (or the one named) for some seconds. What reaches new code is merged into the kept corpus,
# and an input that crashes is kept there too, so that every later `make test` replays it.
set -euo pipefail
build=$1 only=$2 seconds=$3
export UBSAN_OPTIONS=print_stacktrace=1
status=0 count=0
for source in tests/fuzz/*.cpp; do
  stem=$(basename "$source" .cpp)
  [ -z "$only" ] || [ "$only" = "$stem" ] || continue
  count=$((count + 1))
  kept=tests/fuzz/corpus/$stem grown=$build/corpus/$stem log=$build/$stem.log
  mkdir -p "$kept" "$grown"
  echo "== $stem, $seconds s"
  "$build/fuzz_$stem" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$kept/" "$grown" "$kept" >"$log" 2>&1 || { status=1 && tail -n 60 "$log"; }
  # Edges alone decide what is worth keeping: counting hits as well would keep ten times the files.
  "$build/fuzz_$stem" -set_cover_merge=1 -use_counters=0 -artifact_prefix="$kept/" "$kept" "$grown" >>"$log" 2>&1 || status=1
  grep -E 'number_of_executed_units|average_exec' "$log" || true
  echo "corpus: $(find "$kept" -type f | wc -l) inputs"
done
[ "$count" -gt 0 ] || { echo "no fuzz target named '$only' in tests/fuzz" >&2 && exit 2; }
exit $status
