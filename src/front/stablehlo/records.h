// Structured attributes, one row each: name, fields in the order bytecode stores them, codes, and how text writes them.
// Enumerations likewise. Bytecode readers, text reader and printer all follow these rows; none names a record itself
// unless its text is irregular (Syntax::custom).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace trine::front::stablehlo {

enum class FieldKind : uint8_t {
  integer,           // i64 attribute; signed varint
  count,             // the same; unsigned varint (lines and columns)
  optional_integer,  // the same, or absent; varint with a flag
  integers,          // array<i64>; list of signed varints
  flag,              // boolean; a byte
  real,              // f64
  text,              // string; index of a string
  type,              // type attribute
  attr,              // any attribute
  optional_attr,     // any, or absent; index with a flag
  attrs,             // array of any attributes
};

struct Field {
  std::string_view name = {};
  FieldKind kind = FieldKind::attr;
  std::string_view of = {};  // of attrs and attr: the record's or enumeration's name, "text", "loc", "mesh", or any
};

enum class Syntax : uint8_t {
  fields,        // <name = value, ...>, every field
  fields_given,  // the same, without those that are zero, empty or absent
  pattern,       // literal text with $field; what is between two ` is there when its field is not empty
  custom,        // its own reader and printer
};

struct RecordRow {
  std::string_view name = {};  // "stablehlo.dot": dialect and mnemonic; "loc.*" are locations
  int code = -1;               // in its dialect's bytecode
  std::span<const Field> fields = {};
  Syntax syntax = Syntax::fields;
  std::string_view pattern = {};
};

struct EnumRow {
  std::string_view name = {};                     // "stablehlo.precision"
  int code = -1;                                  // in its dialect's bytecode
  int vhlo = -1;                                  // in VHLO's
  std::span<const std::string_view> values = {};  // by number; empty where a number means nothing
  bool angled = false;                            // text writes #dialect.name<VALUE>, else #dialect<name VALUE>
};

std::span<const RecordRow> records();
const RecordRow* record_by_name(std::string_view name);
const EnumRow* enum_by_name(std::string_view name);
const RecordRow* record_by_code(std::string_view dialect, uint64_t code);
const EnumRow* enum_by_code(std::string_view dialect, uint64_t code);  // dialect may be "vhlo"

}  // namespace trine::front::stablehlo
