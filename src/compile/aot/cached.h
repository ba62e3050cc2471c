// The device compiler behind the cache: the same graph (or the same source, which then is not read), chip, options and
// compiler give the same entry. Weights that are inputs have no values in a graph, so a changed weight is the same
// program.
#pragma once

#include <string>
#include <string_view>

#include "compile/aot/parts.h"
#include "compile/cache/cache.h"
#include "compile/device/device.h"

namespace trine::compile {

// Of this build's sources: another compiler, another key. Written by the build.
std::string_view compiler_id();

CacheKey device_key(const ir::Graph& graph, const arch::Chip& chip, const DeviceOptions& options);

struct CachedProgram {
  DeviceProgram made = {};
  std::string hash = {};  // of the entry; empty where there is no cache
  bool found = false;     // it was there, and nothing was compiled
  std::string trouble = {};
};
// options.off: compiles, and keeps nothing.
Result<CachedProgram> compile_cached(const ir::Graph& graph, const arch::Chip& chip, const DeviceOptions& options,
                                     const CacheOptions& cache, const DeviceObserver& observer = {});

// All that is made of a source: its parts, the types they take and give, and what they ask of other cores as JSON.
struct CompiledSource {
  std::string name = {};  // the graph's
  SplitProgram split = {};
  Signature signature = {};
  std::string collectives = "[]";
};
struct CachedSource {
  CompiledSource made = {};
  std::string hash = {};  // as of CachedProgram
  bool found = false;
  std::string trouble = {};
};
using MakeSource = std::function<Result<CompiledSource>()>;
Result<CachedSource> source_cached(std::string_view source, const arch::Chip& chip, const DeviceOptions& options,
                                   const CacheOptions& cache, const MakeSource& make);

}  // namespace trine::compile
