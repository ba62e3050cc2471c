// trine cache: what the compile cache holds, whether it is whole, and making room in it.
#include <charconv>
#include <chrono>
#include <cstdlib>

#include "base/text.h"
#include "compile/cache/cache.h"
#include "tools/cli.h"

namespace trine::tools {

namespace {

using compile::Cache;
using compile::CacheEntry;

Result<Cache> open_cache(const std::string& url) {
  auto options = TRY(compile::cache_options([](const char* name) -> const char* { return std::getenv(name); }));
  if (!url.empty() && url.starts_with("s3://") && options.locks.empty()) options.locks = options.url + "/v1/locks";
  if (!url.empty() && !url.starts_with("s3://")) options.locks.clear();
  if (!url.empty()) options.url = url;
  return Cache::open(std::move(options));
}

std::string age_text(double seconds) {
  if (seconds < 60) return "now";
  if (seconds < 3600) return cat(int64_t(seconds / 60), " min");
  if (seconds < 86400) return cat(int64_t(seconds / 3600), " h");
  return cat(int64_t(seconds / 86400), " days");
}

Json entries_json(const std::vector<CacheEntry>& entries) {
  Json out = Json::array();
  for (const CacheEntry& e : entries) {
    Json row = Json::object().set("key", e.hash).set("bytes", e.bytes).set("used", e.used).set("about", e.about);
    if (!e.bad.empty()) row.set("bad", e.bad);
    out.push(std::move(row));
  }
  return out;
}

Result<Exit> show(Cache& cache, const std::vector<CacheEntry>& entries, bool checked, bool json) {
  int64_t bytes = 0, bad = 0;
  for (const CacheEntry& e : entries) bytes += e.bytes, bad += !e.bad.empty();
  if (json) {
    print(report(checked ? "cache verify" : "cache")
              .set("url", cache.options().url)
              .set("bytes", bytes)
              .set("bytes_max", cache.options().bytes_max)
              .set("bad", bad)
              .set("entries", entries_json(entries))
              .text(2) +
          "\n");
    return bad > 0 ? Exit::check_failed : Exit::ok;
  }
  print(cat(cache.options().url, ": ", with_commas(int64_t(entries.size())), " entries, ",
            with_unit_bytes(double(bytes)), " of ", with_unit_bytes(double(cache.options().bytes_max)),
            checked ? cat(", ", bad, " bad") : "", "\n"));
  const double now = double(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()));
  std::vector<std::vector<std::string>> rows = {{"key", "size", "used", "about"}};
  for (const CacheEntry& e : entries)
    rows.push_back({e.hash.substr(0, 12), with_unit_bytes(double(e.bytes)), age_text(now - e.used),
                    e.bad.empty() ? e.about : "BAD: " + e.bad});
  if (!entries.empty()) print(columns(rows, "0100"));
  return bad > 0 ? Exit::check_failed : Exit::ok;
}

// 500, 20k, 3M, 10G: powers of 1,000.
Result<int64_t> bytes_of(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit = lower(std::string_view(end, size_t(text.data() + text.size() - end)));
  const int64_t factor = unit.empty() || unit == "b"   ? 1
                         : unit == "k" || unit == "kb" ? 1000
                         : unit == "m" || unit == "mb" ? 1000000
                         : unit == "g" || unit == "gb" ? 1000000000
                                                       : 0;
  if (error != std::errc{} || value < 0 || factor == 0 || value > (int64_t{1} << 40))
    return fail(Code::invalid, cat("--max ", text, ": expected a size such as 500M or 10G"));
  return value * factor;
}

Result<Exit> prune(Cache& cache, const Args& args) {
  const int64_t most = args.has("--max") ? TRY(bytes_of(args.get("--max"))) : cache.options().bytes_max;
  int64_t bad = 0;
  for (const CacheEntry& e : TRY(cache.verify()))
    if (!e.bad.empty()) TRY(cache.remove(e.hash)), ++bad;
  const Cache::Pruned done = TRY(cache.prune(most));
  if (args.has("--json")) {
    print(report("cache prune")
              .set("bad", bad)
              .set("removed", done.entries)
              .set("removed_bytes", done.bytes)
              .set("entries", done.left_entries)
              .set("bytes", done.left_bytes)
              .text(2) +
          "\n");
    return Exit::ok;
  }
  print(cat(cache.options().url, ": removed ", done.entries, " entries (", with_unit_bytes(double(done.bytes)),
            ") and ", bad, " bad ones; ", done.left_entries, " left, ", with_unit_bytes(double(done.left_bytes)),
            "\n"));
  return Exit::ok;
}

Result<Exit> export_all(Cache& cache, const Args& args) {
  const std::string to = args.get("--to");
  if (to.empty()) return fail(Code::invalid, "export where? --to DIR or --to s3://bucket/prefix");
  Cache other = TRY(open_cache(to));
  const int64_t count = TRY(cache.export_to(other));
  print(args.has("--json") ? report("cache export").set("to", to).set("entries", count).text(2) + "\n"
                           : cat("copied ", count, " entries to ", to, "\n"));
  return Exit::ok;
}

Result<Exit> run(const Args& args) {
  const std::string what = args.words.empty() ? "ls" : args.words[0];
  Cache cache = TRY(open_cache(args.get("--url")));
  if (what == "prune") return prune(cache, args);
  if (what == "export") return export_all(cache, args);
  const bool checked = what == "verify";
  return show(cache, TRY(checked ? cache.verify() : cache.list()), checked, args.has("--json"));
}

constexpr Option kOptions[] = {
    {"--url", "", "PLACE",
     "a directory or s3://bucket/prefix (else NEURON_COMPILE_CACHE_URL, the user's cache directory)", folder()},
    {"--max", "", "SIZE", "prune to this size, such as 500M (else TRINE_CACHE_BYTES, 10 GiB)"},
    {"--to", "", "PLACE", "export to this directory or s3://bucket/prefix", folder()},
    kJson,
};

}  // namespace

extern const Command command_cache{
    .name = "cache",
    .summary = "the compile cache: list, check, make room, copy",
    .words = "[ls|verify|prune|export]",
    .words_min = 0,
    .words_max = 1,
    .word = one_of("ls verify prune export"),
    .details =
        "Compiled programs by the hash of graph, chip, flags and compiler. A directory keeps what was used last; S3 "
        "what\n"
        "was written last. S3 takes AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION and\n"
        "AWS_ENDPOINT_URL. verify exits with 1 where an entry is bad; such an entry is never used, and prune removes "
        "it.",
    .examples =
        "trine cache ls\n"
        "trine cache verify --json\n"
        "trine cache prune --max 500M\n"
        "NEURON_COMPILE_CACHE_URL=s3://models/neuron trine cache ls\n"
        "trine cache export --to s3://models/neuron",
    .options = kOptions,
    .run = run,
};

}  // namespace trine::tools
