// Who reads, who makes, what goes when it is full.
#include "compile/cache/cache.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "compile/cache/entry.h"
#include "compile/cache/folder.h"
#include "compile/cache/s3.h"

namespace trine::compile {

namespace {

constexpr double kPruneTo = 0.9;  // of the bound, so that not every entry prunes

bool is_s3(std::string_view url) { return url.starts_with("s3://"); }

std::string text_of(const Environment& environment, const char* name) {
  const char* value = environment(name);
  return value != nullptr ? value : "";
}

Result<std::string> default_folder(const Environment& environment) {
  if (std::string base = text_of(environment, "XDG_CACHE_HOME"); !base.empty())
    return base + "/trine/neuron-compile-cache";
  if (std::string home = text_of(environment, "HOME"); !home.empty())
    return home + "/.cache/trine/neuron-compile-cache";
  return fail(Code::not_found, "no place for the compile cache: set NEURON_COMPILE_CACHE_URL, XDG_CACHE_HOME or HOME");
}

S3Options s3_options(const Environment& environment) {
  S3Options out;
  const auto first = [&](std::initializer_list<const char*> names, std::string otherwise = {}) {
    for (const char* name : names)
      if (std::string value = text_of(environment, name); !value.empty()) return value;
    return otherwise;
  };
  out.endpoint = first({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  out.region = first({"AWS_REGION", "AWS_DEFAULT_REGION"}, "us-east-1");
  out.access_key = first({"AWS_ACCESS_KEY_ID"});
  out.secret_key = first({"AWS_SECRET_ACCESS_KEY"});
  out.session_token = first({"AWS_SESSION_TOKEN"});
  return out;
}

// What NEURON_CC_FLAGS says of the cache: it wins over the variable.
Result<void> read_flags(std::string_view flags, CacheOptions& out) {
  constexpr std::string_view kFolder = "--cache_dir";
  const auto words = split(flags, ' ');
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = trim(words[i]);
    if (word == "--no_cache") out.off = true;
    if (!word.starts_with(kFolder)) continue;
    if (word.size() > kFolder.size() && word[kFolder.size()] == '=')
      out.url = word.substr(kFolder.size() + 1);
    else if (word == kFolder && i + 1 < words.size())
      out.url = trim(words[++i]);
    if (out.url.empty())
      return fail(Code::invalid, "NEURON_CC_FLAGS: --cache_dir needs a folder or s3://bucket/prefix");
  }
  return {};
}

}  // namespace

Result<CacheOptions> cache_options(const Environment& environment) {
  CacheOptions out{.s3 = s3_options(environment)};
  TRY(read_flags(text_of(environment, "NEURON_CC_FLAGS"), out));
  if (out.url.empty()) out.url = text_of(environment, "NEURON_COMPILE_CACHE_URL");
  if (out.url.starts_with("file://")) out.url.erase(0, 7);
  if (out.url.empty()) out.url = TRY(default_folder(environment));
  if (is_s3(out.url)) out.locks = TRY(default_folder(environment)) + "/v1/locks";
  out.key = text_of(environment, "TRINE_CACHE_KEY");
  if (const std::string text = text_of(environment, "TRINE_CACHE_BYTES"); !text.empty()) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.bytes_max);
    if (error != std::errc{} || end != text.data() + text.size() || out.bytes_max < 0)
      return fail(Code::invalid, cat("TRINE_CACHE_BYTES is `", text, "`; expected a number of bytes"));
  }
  return out;
}

Result<Cache> Cache::open(CacheOptions options) {
  if (options.url.empty()) return fail(Code::invalid, "the compile cache has no place");
  auto store = TRY(is_s3(options.url) ? open_s3(options.url, options.s3) : open_folder(options.url));
  if (options.locks.empty()) {
    if (is_s3(options.url)) return fail(Code::invalid, "a cache in S3 needs a folder of this machine for its locks");
    options.locks = options.url + "/v1/locks";
  }
  return Cache(std::move(options), std::move(store));
}

Result<std::string> Cache::get(const CacheKey& key) {
  std::string text = TRY(store_->read(key.hash));
  auto entry = read_entry(text, key.hash, options_.key);
  if (entry) {
    text.erase(0, text.size() - entry->bytes.size());
    return text;
  }
  (void)store_->remove(key.hash);
  return fail(Code::not_found, cat("entry ", key.hash, " ", entry.error().message));
}

Result<void> Cache::put(const CacheKey& key, std::string_view bytes) {
  TRY(store_->write(key.hash, write_entry(key, bytes, options_.key)));
  const Result<void> pruned = keep_within();
  if (!pruned) trouble_ = cat("kept, but room could not be made: ", pruned.error().text());
  return {};
}

Result<void> Cache::keep_within() {
  int64_t total = 0;
  for (const CacheEntry& e : TRY(store_->list(false))) total += e.bytes;
  if (total > options_.bytes_max) TRY(prune(int64_t(double(options_.bytes_max) * kPruneTo)));
  return {};
}

Result<std::string> Cache::get_or_make(const CacheKey& key, const Make& make) {
  trouble_.clear();
  const auto note = [&](const Error& e) {
    if (e.code != Code::not_found) trouble_ = e.text();
  };
  auto found = get(key);
  if (found) return found;
  note(found.error());
  if (!trouble_.empty()) return make();
  const auto lock = CacheLock::take(options_.locks, key.hash);
  if (!lock) trouble_ = lock.error().text();
  // Whoever held the lock before may have made it.
  if (lock) found = get(key);
  if (lock && found) return found;
  auto made = make();
  if (!made) return made;
  if (auto stored = put(key, *made); !stored) trouble_ = cat("what was made was not kept: ", stored.error().text());
  return made;
}

Result<std::vector<CacheEntry>> Cache::list() {
  auto out = TRY(store_->list(true));
  std::sort(out.begin(), out.end(), [](const CacheEntry& a, const CacheEntry& b) {
    return a.used != b.used ? a.used > b.used : a.hash < b.hash;
  });
  return out;
}

Result<std::vector<CacheEntry>> Cache::verify() {
  auto out = TRY(list());
  for (CacheEntry& e : out) {
    const auto text = store_->read(e.hash);
    const auto entry = text ? read_entry(*text, e.hash, options_.key) : Result<Entry>(text.error());
    if (entry) e.about = entry->key.about;
    if (!entry) e.bad = entry.error().message;
  }
  return out;
}

Result<Cache::Pruned> Cache::prune(int64_t bytes_max) {
  Pruned out;
  for (const CacheEntry& e : TRY(list())) {
    const bool keeps = out.left_bytes + e.bytes <= bytes_max;
    if (!keeps) TRY(store_->remove(e.hash));
    (keeps ? out.left_entries : out.entries) += 1;
    (keeps ? out.left_bytes : out.bytes) += e.bytes;
  }
  sweep(options_.locks);
  if (!is_s3(options_.url)) sweep(options_.url + "/v1/tmp");
  return out;
}

Result<int64_t> Cache::export_to(Cache& other) {
  int64_t count = 0;
  for (const CacheEntry& e : TRY(list())) {
    const auto text = store_->read(e.hash);
    const auto entry = text ? read_entry(*text, e.hash, options_.key) : Result<Entry>(text.error());
    if (!entry) continue;
    TRY(other.store_->write(e.hash, write_entry(entry->key, entry->bytes, other.options_.key)));
    ++count;
  }
  return count;
}

}  // namespace trine::compile
