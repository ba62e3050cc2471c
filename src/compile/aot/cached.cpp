// What decides a program, as a key, and the way through the cache; see cached.h.
#include "compile/aot/cached.h"

#include <memory>

#include "arch/chips/chip_text.h"
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

// Of sources, so that no source's key is a graph's.
constexpr std::string_view kSource = "source ";

// JSON in one line, filled up so that the programs behind it are aligned as they were.
constexpr size_t kAlign = 64;

std::string source_bytes(const CompiledSource& made) {
  std::string programs;
  Json head = Json::object().set("version", 1).set("signature", signature_json(made.signature));
  head.set("split", parts_json(made.split, programs)).set("collectives", made.collectives);
  std::string out = head.text(0);
  out.append(kAlign - 1 - out.size() % kAlign, ' ');
  out += '\n';
  return out += programs;
}

Result<CompiledSource> parse_source(std::shared_ptr<const std::string> bytes, const std::string& name) {
  const size_t end = bytes->find('\n');
  if (end == std::string::npos) return fail(Code::invalid, "the entry of a source has no head", name);
  const Json head = TRY(parse_json(std::string_view(*bytes).substr(0, end), name));
  const Json* const signature = head.find("signature");
  const Json* const split = head.find("split");
  const Json* const collectives = head.find("collectives");
  if (!signature || !split || !collectives) return fail(Code::invalid, "the entry of a source lacks parts", name);
  CompiledSource out{.signature = TRY(parse_signature(*signature)), .collectives = collectives->string()};
  out.split = TRY(parse_parts(*split, std::as_bytes(std::span(*bytes)).subspan(end + 1), out.signature, name, bytes));
  return out;
}

// Of an entry that is whole but says nothing that can be read; what there is to say of it.
std::string replace(Cache& cache, const CacheKey& key, const Error& why, std::string_view bytes) {
  const auto stored = cache.put(key, bytes);
  return cat("entry ", key.hash, " could not be read (", why.message, ") and was made again",
             stored ? "" : cat("; it could not be replaced: ", stored.error().text()));
}

}  // namespace

CacheKey device_key(const ir::Graph& graph, const arch::Chip& chip, const DeviceOptions& options) {
  return cache_key(ir::text(graph), arch::chip_text(chip), options_text(options), compiler_id(),
                   cat(graph.name, " for ", chip.name));
}

Result<CachedProgram> compile_cached(const ir::Graph& graph, const arch::Chip& chip, const DeviceOptions& options,
                                     const CacheOptions& cache, const DeviceObserver& observer) {
  CachedProgram out;
  if (cache.off) {
    out.made = TRY(compile_device(graph, chip, options, observer));
    return out;
  }
  auto opened = Cache::open(cache);
  if (!opened) {
    out.made = TRY(compile_device(graph, chip, options, observer));
    out.trouble = opened.error().text();
    return out;
  }
  const CacheKey key = device_key(graph, chip, options);
  out.found = true;
  const auto bytes = std::make_shared<const std::string>(TRY(opened->get_or_make(key, [&]() -> Result<std::string> {
    out.found = false;
    out.made = TRY(compile_device(graph, chip, options, observer));
    return artifact_bytes(out.made);
  })));
  out.hash = key.hash;
  out.trouble = opened->trouble();
  if (!out.found) return out;
  auto read = parse_artifact(std::as_bytes(std::span(*bytes)), key.about, bytes);
  if (read) {
    out.made = *std::move(read);
    return out;
  }
  out.found = false;
  out.made = TRY(compile_device(graph, chip, options, observer));
  out.trouble = replace(*opened, key, read.error(), artifact_bytes(out.made));
  return out;
}

Result<CachedSource> source_cached(std::string_view source, const arch::Chip& chip, const DeviceOptions& options,
                                   const CacheOptions& cache, const MakeSource& make) {
  CachedSource out;
  auto opened = cache.off ? Result<Cache>(fail(Code::cancelled, "")) : Cache::open(cache);
  if (!opened) {
    out.made = TRY(make());
    if (!cache.off) out.trouble = opened.error().text();
    return out;
  }
  CacheKey key = cache_key(source, arch::chip_text(chip), cat(kSource, options_text(options)), compiler_id());
  out.found = true;
  const auto bytes = std::make_shared<const std::string>(TRY(opened->get_or_make(key, [&]() -> Result<std::string> {
    out.found = false;
    out.made = TRY(make());
    key.about = cat(out.made.name, " for ", chip.name);  // for who lists entries; it does not decide
    return source_bytes(out.made);
  })));
  out.hash = key.hash;
  out.trouble = opened->trouble();
  if (!out.found) return out;
  auto read = parse_source(bytes, cat("cache entry ", key.hash));
  if (read) {
    out.made = *std::move(read);
    return out;
  }
  out.found = false;
  out.made = TRY(make());
  key.about = cat(out.made.name, " for ", chip.name);
  out.trouble = replace(*opened, key, read.error(), source_bytes(out.made));
  return out;
}

}  // namespace trine::compile
