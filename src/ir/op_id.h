// OpId: an op of the graph as a small number, so that passes compare numbers and the compiler finds a misspelled name.
// The build writes the numbers (ir/op_ids.h, namespace trine::op) from the files of src/ops; nothing else may rely on
// them: what is stored or printed is the name.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"

namespace trine::ir {

struct OpId {
  uint16_t index = 0;  // 0: no op

  static std::optional<OpId> find(std::string_view name);  // nothing where there is no such op

  std::string_view name() const;
  constexpr explicit operator bool() const { return index != 0; }
  constexpr auto operator<=>(const OpId&) const = default;
  friend void append_text(std::string& out, OpId op) { trine::append_text(out, op.name()); }
};

OpId op_named(std::string_view name);           // of a name that is one: a reduction's kind, checked by its type rule
std::string unknown_op(std::string_view name);  // "there is no op `sparse`; near: ..."

}  // namespace trine::ir

template <>
struct std::hash<trine::ir::OpId> {
  size_t operator()(trine::ir::OpId op) const noexcept { return op.index; }
};
