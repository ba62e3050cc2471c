// Pages whose tokens are known, as a tree by page: a request that begins as an earlier one did takes its pages.
// A node's key is the hash of all tokens up to its end; the tokens of the page itself are compared, so that no two that
// differ are ever taken for one. Leaves that only the cache holds go first, the longest unused before. The last page
// of a sequence may be there with fewer tokens than it has room for; who begins with them copies it.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "serve/page_pool.h"

namespace trine::serve {

inline constexpr int32_t kPageTokens = 16;

// Of a page's tokens after those of `before`; root: what differs between adapters, by their labels.
uint64_t page_hash(uint64_t before, std::span<const int32_t> tokens);
uint64_t root_hash(std::string_view adapter);

class PrefixCache {
 public:
  explicit PrefixCache(PagePool& pool) : pool_(pool), node_of_page_(size_t(pool.total()), 0) {}

  // The page of `hash`, held for the caller, or -1. tokens: those of the page, empty where only hashes are known.
  int32_t find(uint64_t hash, std::span<const int32_t> tokens);
  bool has(uint64_t hash) const { return nodes_.contains(hash); }
  int32_t page_of(uint64_t hash) const;  // not held; -1: not there
  // The page after `before` that begins with the most of `tokens`, held for the caller, and how many; -1: none does.
  struct Part {
    int32_t page = -1, tokens = 0;
  };
  Part find_part(uint64_t before, std::span<const int32_t> tokens);
  // A page that a sequence has filled, or has ended in. The cache holds it, too; if another page has the same tokens
  // already, nothing.
  void put(uint64_t before, uint64_t hash, int32_t page, std::span<const int32_t> tokens);
  void release(int32_t page);  // a sequence's hold
  // Frees one page that nobody but the cache holds; false: there is none.
  bool evict();
  int32_t evictable() const { return int32_t(nodes_.size()) - held_; }
  int32_t pages() const { return int32_t(nodes_.size()); }

 private:
  struct Node {
    uint64_t before = 0, used = 0;
    int32_t page = -1, children = 0, count = 0;  // tokens that are known
    std::array<int32_t, kPageTokens> tokens{};
  };

  void refresh(uint64_t hash, Node& node);
  int32_t held(uint64_t hash, Node& node);

  PagePool& pool_;
  std::unordered_map<uint64_t, Node> nodes_;
  std::unordered_multimap<uint64_t, uint64_t> after_;  // hash of what is before a page and its first token: the page's
  std::vector<uint64_t> node_of_page_;                 // 0: none
  std::set<std::pair<uint64_t, uint64_t>> leaves_;     // (when used, hash) of those that may go now
  uint64_t clock_ = 0;
  int32_t held_ = 0;  // nodes whose page somebody else holds
};

}  // namespace trine::serve
