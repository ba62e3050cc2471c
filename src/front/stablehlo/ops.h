// The ops, one row each: their attributes (bytecode stores them without names), how VHLO spells them, and the short
// text form. An op without a row can be read only where bytecode and text are self-describing.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace trine::front::stablehlo {

// How VHLO's value becomes StableHLO's.
enum class Rule : uint8_t {
  same,
  integers,  // dense -> array<i64>
  booleans,  // dense -> array<i1>
  unit,      // true -> unit, false -> absent
  symbol,    // string -> @symbol
  symbols,   // strings -> @symbols
  channel,   // VHLO's channel_id -> #stablehlo.channel_handle<handle = id, type = 0>; 0 -> absent
  record,    // VHLO spreads the record's fields over the op
};

struct AttrRow {
  std::string_view name = {};
  Rule rule = Rule::same;
  std::string_view record = {};  // of Rule::record
  std::string_view absent = {};  // VHLO's value that StableHLO leaves out: "false", "0", "empty", ...
  bool optional = false;         // StableHLO's bytecode may leave it out
  bool native = false;           // VHLO has no such attribute
  int since = 1;                 // version of the VHLO op that has it first
};

struct OpRow {
  std::string_view name = {};   // "stablehlo.add"
  std::string_view attrs = {};  // see ops.cpp
  std::string_view form = {};   // of the text; empty: only the generic form exists. See text/form.cpp
  int first = 1, last = 1;      // versions of the VHLO op
};

struct OpInfo {
  const OpRow* row = nullptr;
  std::vector<AttrRow> attrs = {};  // by name

  // Names in the order VHLO's bytecode stores their values for this version of the op.
  std::vector<std::string_view> vhlo_names(int version) const;
};

const OpInfo* op_by_name(std::string_view name);
bool is_isolated(std::string_view op);                   // whether its regions see no value from outside
std::string_view name_from_vhlo(std::string_view stem);  // "func" -> "func.func", "add" -> "stablehlo.add"; empty: none

}  // namespace trine::front::stablehlo
