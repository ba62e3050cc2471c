// The tree of cached pages and the order in which they go.
#include "serve/prefix_cache.h"

#include <algorithm>
#include <string_view>

namespace trine::serve {

namespace {

uint64_t mixed(uint64_t x) {  // splitmix64's last step
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

}  // namespace

uint64_t page_hash(uint64_t before, std::span<const int32_t> tokens) {
  uint64_t h = before;
  for (const int32_t t : tokens) h = mixed(h + 0x9e3779b97f4a7c15ull + uint64_t(uint32_t(t)));
  return h ? h : 1;
}

uint64_t root_hash(std::string_view adapter) {
  uint64_t h = 1469598103934665603ull;
  for (const char c : adapter) h = (h ^ uint8_t(c)) * 1099511628211ull;
  return mixed(h);
}

int32_t PrefixCache::page_of(uint64_t hash) const {
  const auto found = nodes_.find(hash);
  return found == nodes_.end() ? -1 : found->second.page;
}

// Whether the node may go, and where it stands among those that may.
void PrefixCache::refresh(uint64_t hash, Node& node) {
  if (node.children == 0 && pool_.holders(node.page) == 1)
    leaves_.insert({node.used, hash});
  else
    leaves_.erase({node.used, hash});
}

int32_t PrefixCache::find(uint64_t hash, std::span<const int32_t> tokens) {
  const auto found = nodes_.find(hash);
  if (found == nodes_.end()) return -1;
  Node& node = found->second;
  if (!tokens.empty() &&
      !std::equal(tokens.begin(), tokens.end(), node.tokens.begin(), node.tokens.begin() + node.count))
    return -1;
  return held(hash, node);
}

int32_t PrefixCache::held(uint64_t hash, Node& node) {
  leaves_.erase({node.used, hash});
  node.used = ++clock_;
  if (pool_.holders(node.page) == 1) ++held_;
  pool_.hold(node.page);
  return node.page;
}

PrefixCache::Part PrefixCache::find_part(uint64_t before, std::span<const int32_t> tokens) {
  Part best;
  if (tokens.empty()) return best;
  uint64_t found = 0, used = 0;
  for (auto [at, end] = after_.equal_range(page_hash(before, tokens.first(1))); at != end; ++at) {
    const Node& node = nodes_.at(at->second);
    if (node.before != before) continue;
    const auto last =
        std::mismatch(tokens.begin(), tokens.end(), node.tokens.begin(), node.tokens.begin() + node.count);
    const int32_t alike = int32_t(last.first - tokens.begin());
    if (alike > best.tokens || (alike == best.tokens && alike && node.used > used))
      best.tokens = alike, found = at->second, used = node.used;
  }
  if (found) best.page = held(found, nodes_.at(found));
  return best;
}

void PrefixCache::put(uint64_t before, uint64_t hash, int32_t page, std::span<const int32_t> tokens) {
  const auto [at, is_new] = nodes_.try_emplace(hash);
  if (!is_new) return;
  Node& node = at->second;
  node.before = before, node.page = page, node.used = ++clock_;
  std::copy(tokens.begin(), tokens.end(), node.tokens.begin());
  node.count = int32_t(tokens.size());
  if (node.count) after_.emplace(page_hash(before, tokens.first(1)), hash);
  pool_.hold(page);
  ++held_;
  node_of_page_[size_t(page)] = hash;
  if (const auto parent = nodes_.find(before); parent != nodes_.end()) {
    leaves_.erase({parent->second.used, before});
    ++parent->second.children;
  }
}

void PrefixCache::release(int32_t page) {
  const uint64_t hash = node_of_page_[size_t(page)];
  if (pool_.release(page) || !hash) return;
  Node& node = nodes_.at(hash);
  if (pool_.holders(page) == 1) --held_;
  refresh(hash, node);
}

bool PrefixCache::evict() {
  if (leaves_.empty()) return false;
  const uint64_t hash = leaves_.begin()->second;
  leaves_.erase(leaves_.begin());
  const auto node = nodes_.find(hash);
  const uint64_t before = node->second.before;
  if (node->second.count) {
    auto [at, end] = after_.equal_range(page_hash(before, std::span(node->second.tokens).first(1)));
    after_.erase(std::find_if(at, end, [&](const auto& one) { return one.second == hash; }));
  }
  node_of_page_[size_t(node->second.page)] = 0;
  pool_.release(node->second.page);
  nodes_.erase(node);
  if (const auto parent = nodes_.find(before); parent != nodes_.end()) {
    --parent->second.children;
    refresh(before, parent->second);
  }
  return true;
}

}  // namespace trine::serve
