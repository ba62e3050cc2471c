// The compile cache: results by the hash of all that decides them, in a directory or an S3 bucket.
// Many processes may share one: an entry appears whole or not at all, and of those who wait for the same entry one
// makes it. A holder that is killed, at any moment, leaves nothing that is read and no lock that stays.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trine::compile {

struct CacheKey {
  std::string hash = {};   // 64 hex digits
  std::string about = {};  // for people: what was compiled, for which chip
};
// Of everything that decides what is made. Each part counts, and where it ends.
CacheKey cache_key(std::string_view graph, std::string_view chip, std::string_view flags, std::string_view compiler,
                   std::string_view about = {});

struct S3Options {
  std::string endpoint = {};  // "http://localhost:5000"; empty: AWS
  std::string region = "us-east-1";
  std::string access_key = {}, secret_key = {}, session_token = {};
};

struct CacheOptions {
  std::string url = {};                   // a directory, or s3://bucket/prefix
  std::string locks = {};                 // a directory of this machine; empty: inside the cache's own
  int64_t bytes_max = int64_t{10} << 30;  // kept; past it the least recently used go
  std::string key = {};  // entries are signed by it, and none that is not is read; empty: a checksum against accidents
  S3Options s3 = {};
  bool off = false;  // nothing is read or kept
};
// From --cache_dir and --no_cache in NEURON_CC_FLAGS, NEURON_COMPILE_CACHE_URL (else the user's cache directory),
// TRINE_CACHE_BYTES, TRINE_CACHE_KEY and AWS's variables.
using Environment = std::function<const char*(const char* name)>;
Result<CacheOptions> cache_options(const Environment& environment);

struct CacheEntry {
  std::string hash = {}, about = {};
  int64_t bytes = 0;
  double used = 0;       // seconds since 1970: last read in a directory, written in S3
  std::string bad = {};  // why it cannot be used; set by verify
};

bool is_cache_hash(std::string_view text);  // 64 hex digits

// Where entries lie. Values are whole entries as entry.h writes them.
class CacheStore {
 public:
  virtual ~CacheStore() = default;
  virtual Result<std::string> read(const std::string& hash) = 0;  // Code::not_found where there is none
  virtual Result<void> write(const std::string& hash, std::string_view bytes) = 0;
  virtual Result<void> remove(const std::string& hash) = 0;
  virtual Result<std::vector<CacheEntry>> list(bool about) = 0;  // about: with the texts, where they cost little
};

class Cache {
 public:
  static Result<Cache> open(CacheOptions options);

  using Make = std::function<Result<std::string>()>;
  // The entry, or what `make` gives, which is kept. A cache that cannot be used only costs time: see trouble().
  Result<std::string> get_or_make(const CacheKey& key, const Make& make);

  Result<void> remove(const std::string& hash) { return store_->remove(hash); }
  Result<std::string> get(const CacheKey& key);  // Code::not_found where there is none that is whole
  Result<void> put(const CacheKey& key, std::string_view bytes);

  Result<std::vector<CacheEntry>> list();    // most recently used first
  Result<std::vector<CacheEntry>> verify();  // the same, each read and checked
  struct Pruned {
    int64_t entries = 0, bytes = 0, left_entries = 0, left_bytes = 0;
  };
  Result<Pruned> prune(int64_t bytes_max);  // the least recently used go, and what ended processes left
  Result<int64_t> export_to(Cache& other);  // how many were copied

  const CacheOptions& options() const { return options_; }
  const std::string& trouble() const { return trouble_; }  // why the last get_or_make could not use the cache

 private:
  Cache(CacheOptions options, std::unique_ptr<CacheStore> store)
      : options_(std::move(options)), store_(std::move(store)) {}

  Result<void> keep_within();  // bytes_max

  CacheOptions options_;
  std::unique_ptr<CacheStore> store_;
  std::string trouble_;
};

}  // namespace trine::compile
