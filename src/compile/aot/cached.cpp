// What decides a program, as a key, and the way through the cache; see cached.h.
#include "compile/aot/cached.h"

#include "arch/chip_text.h"
#include "base/text.h"
#include "compile/aot/artifact.h"
#include "ir/text.h"

namespace trine::compile {

namespace {

std::string options_text(const DeviceOptions& options) {
  const auto& [dots, weights, timer] =
      options;  // each field decides: a new one does not compile here until it is in the key
  std::string out = dots.cast ? cat("cast ", row(*dots.cast).name, " weights ") : std::string("weights ");
  for (bool weight : weights) out += weight ? '1' : '0';
  if (timer) out += " timed";  // which timer: its sources are in the compiler's id
  return out;
}

}  // namespace

CacheKey device_key(const ir::Graph& graph, const arch::Chip& chip, const DeviceOptions& options) {
  return cache_key(ir::text(graph), arch::chip_text(chip), options_text(options), compiler_id(),
                   cat(graph.name, " for ", chip.name));
}

Result<CachedProgram> compile_cached(const ir::Graph& graph, const arch::Chip& chip, const DeviceOptions& options,
                                     const CacheOptions& cache, const Watch& watch) {
  CachedProgram out;
  if (cache.off) {
    out.made = TRY(compile_device(graph, chip, options, watch));
    return out;
  }
  auto opened = Cache::open(cache);
  if (!opened) {
    out.made = TRY(compile_device(graph, chip, options, watch));
    out.trouble = opened.error().text();
    return out;
  }
  const CacheKey key = device_key(graph, chip, options);
  out.found = true;
  const auto bytes = std::make_shared<const std::string>(TRY(opened->get_or_make(key, [&]() -> Result<std::string> {
    out.found = false;
    out.made = TRY(compile_device(graph, chip, options, watch));
    return artifact_bytes(out.made);
  })));
  out.hash = key.hash;
  out.trouble = opened->trouble();
  if (out.found) out.made = TRY(parse_artifact(std::as_bytes(std::span(*bytes)), key.about, bytes));
  return out;
}

}  // namespace trine::compile
