// What a node is told besides its inputs: a small dictionary of plain values, sorted by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace trine::ir {

using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;
using Attr = std::variant<bool, int64_t, double, std::string, Ints, Strings, Dtype, Tensor>;

class Attrs {
 public:
  using Item = std::pair<std::string, Attr>;

  Attrs() = default;
  Attrs(std::initializer_list<Item> items);
  // Defined in attr.cpp: inline, every file that makes a node would compile them again.
  Attrs(const Attrs& other);
  Attrs(Attrs&& other) noexcept;
  Attrs& operator=(const Attrs& other);
  Attrs& operator=(Attrs&& other) noexcept;
  ~Attrs();

  void set(std::string_view name, Attr value);
  void remove(std::string_view name);
  const Attr* find(std::string_view name) const;

  // Of another kind, or absent: the given value.
  bool flag(std::string_view name, bool otherwise = false) const;
  int64_t integer(std::string_view name, int64_t otherwise = 0) const;
  double real(std::string_view name, double otherwise = 0) const;
  std::string_view text(std::string_view name, std::string_view otherwise = {}) const;
  const Ints& ints(std::string_view name) const;        // empty where absent
  const Strings& strings(std::string_view name) const;  // empty where absent
  const Tensor* tensor(std::string_view name) const;    // null where absent

  const std::vector<Item>& items() const { return items_; }
  bool operator==(const Attrs& other) const;

 private:
  std::vector<Item> items_;
};

size_t hash(const Attrs& attrs);
std::string text(const Attr& attr);  // long constants elided

}  // namespace trine::ir
