// Sessions: tokens and pages that outlive a request, and pages as files named by what they hold.
// A page's name is the hash of the model, the adapter and all tokens up to its end, so equal histories share files and
// a file is right wherever it is found. Invariant: a file is whole or not there (written beside, then renamed).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/prefix_cache.h"

namespace trine::serve {

struct SavedSession {
  std::string adapter;
  std::vector<int32_t> tokens;
  std::vector<std::string> pages;  // names in the store, of full pages in order
};

// What a session's last request left. Its pages lie in the prefix cache and give way to live requests there.
struct Session {
  std::string adapter;
  std::vector<int32_t> tokens;
  std::vector<uint64_t> hashes;  // of full pages
};

class PageStore {
 public:
  PageStore(std::string folder, uint64_t model) : folder_(std::move(folder)), model_(model) {}
  std::string name(uint64_t hash) const;
  bool has(const std::string& name) const;
  Result<void> write(const std::string& name, std::span<const int32_t> tokens, std::span<const std::byte> page) const;
  Result<void> read(const std::string& name, std::span<const int32_t> tokens, std::span<std::byte> page) const;

 private:
  std::string folder_;
  uint64_t model_;
};

}  // namespace trine::serve
