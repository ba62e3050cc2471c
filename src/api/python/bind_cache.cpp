// The compile cache for Python: get and put by a key of text. A cache that cannot be used is one that holds nothing;
// trine.progress says so once.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdlib>

#include "api/python/raise.h"
#include "api/python/trouble.h"
#include "compile/cache/cache.h"

namespace nb = nanobind;
using namespace trine;

namespace {

Result<compile::CacheOptions> options() {
  return compile::cache_options([](const char* name) -> const char* { return std::getenv(name); });
}

Result<compile::Cache> open_cache() { return compile::Cache::open(TRY(options())); }

bool cache_off() {
  const auto found = options();
  return found && found->off;
}

compile::CacheKey key_of(const std::string& graph, const std::string& state, const std::string& about) {
  return compile::cache_key(graph, "", "", state, about);
}

nb::object cache_get(const std::string& graph, const std::string& state) {
  const Result<std::string> found = [&]() -> Result<std::string> {
    const api::Unlocked unlocked;
    auto cache = TRY(open_cache());
    return cache.get(key_of(graph, state, ""));
  }();
  if (!found && found.error().code != Code::not_found) api::tell_trouble(found.error().text());
  return found ? nb::object(nb::bytes(found->data(), found->size())) : nb::none();
}

bool cache_put(const std::string& graph, const std::string& state, const std::string& about, const nb::bytes& bytes) {
  const std::string copy(bytes.c_str(), bytes.size());
  const Result<void> done = [&]() -> Result<void> {
    const api::Unlocked unlocked;
    auto cache = TRY(open_cache());
    return cache.put(key_of(graph, state, about), copy);
  }();
  if (!done) api::tell_trouble(done.error().text());
  return bool(done);
}

}  // namespace

void bind_cache(nb::module_& m) {
  using namespace nb::literals;
  m.def("cache_get", cache_get, "graph"_a, "state"_a,
        "What was kept for a graph's text and a state of its compiler, or None.");
  m.def("cache_put", cache_put, "graph"_a, "state"_a, "about"_a, "bytes"_a, "Keeps it; False where the cache cannot.");
  m.def("cache_off", cache_off, "Whether nothing is to be read or kept, as --no_cache in NEURON_CC_FLAGS says.");
  m.def("cache_hash", [](const std::string& graph, const std::string& state) { return key_of(graph, state, "").hash; });
}
