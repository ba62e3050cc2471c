// The one parser of MLIR text, spread over text_*.cpp: types, attributes, numbers, records, ops, short forms.
// Not an interface: text.h is.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "front/stablehlo/module.h"
#include "front/stablehlo/ops.h"
#include "front/stablehlo/records.h"
#include "front/stablehlo/text/cursor.h"

namespace trine::front::stablehlo {

// Of the parser on types and attributes. JAX keeps up to 100 frames for an op, and each is three levels of locations
// and aliases here.
inline constexpr int kRecursionMax = 500;

class TextParser {
 public:
  TextParser(Module& module, std::string_view text, std::string_view name)
      : module_(module), cursor_(text), name_(name) {}

  Result<void> read_module();
  Result<AttrId> only_attr();
  Result<TypeId> only_type();

 private:
  struct Values {  // what a %name stands for: one op's results, or one of them
    uint32_t first = 0, count = 0;
  };
  struct Operand {
    std::string_view name = {};
    uint64_t number = 0;  // after #
    size_t at = 0;
  };
  struct Awaited {  // a block, by its name
    std::string_view name = {};
    size_t at = 0;
  };
  struct Scope {  // of one region
    std::unordered_map<std::string_view, Values> values = {};
    std::unordered_map<std::string_view, uint32_t> blocks = {};
    std::vector<Awaited> awaited = {};  // by successors
    bool isolated = false;              // sees nothing of the scopes around it
  };
  struct Alias {
    size_t at = 0;
    bool reading = false;
    AttrId attr = AttrId::none;
    TypeId type = TypeId::none;
  };
  // An op while its text is read; results get their values at its end.
  struct Draft {
    Op op = {};
    size_t at = 0;
    std::vector<Operand> operands = {};
    std::vector<TypeId> operand_types = {};
    std::vector<TypeId> result_types = {};
    std::vector<Awaited> successors = {};
  };
  struct Argument {
    std::string_view name = {};
    size_t at = 0;
    TypeId type = TypeId::none;
    AttrId location = AttrId::none;
    AttrId attrs = AttrId::none;
  };

  // type.cpp
  Result<TypeId> type();
  Result<TypeId> type_inside();
  Result<TypeId> function_type();
  Result<TypeId> shaped_type(TypeKind kind);
  Result<TypeId> dialect_type();
  Result<TypeId> quantized_type();
  Result<std::vector<TypeId>> type_list();     // one or more, without brackets
  Result<std::vector<TypeId>> types_or_one();  // (a, b) or a
  Result<TypeId> checked(Type type);

  // attr.cpp
  Result<AttrId> attr();
  Result<AttrId> attr_inside();
  Result<AttrId> word_attr(std::string_view word, size_t at);
  Result<AttrId> number_attr();
  Result<AttrId> symbol_attr();
  Result<AttrId> dialect_attr();
  Result<AttrId> alias(std::string_view name, size_t at);
  Result<AttrId> array_attr();
  Result<AttrId> packed_attr();
  Result<AttrId> location();  // loc(...); none: unknown
  Result<AttrId> location_inside();
  Result<AttrId> location_or(size_t at);  // the position in the text where none is given
  Result<std::vector<NamedAttr>> dictionary();
  Result<AttrId> dictionary_attr();
  Result<std::string_view> name_or_quoted(std::string_view what);
  Result<std::string_view> symbol_name();
  Result<std::string_view> saved_string();

  // number.cpp
  Result<AttrId> dense_attr();
  Result<AttrId> dense_hex(TypeId tensor, size_t at);
  Result<void> dense_elements(const Type& tensor, size_t dimension, std::string& bytes);
  Result<void> dense_element(TypeId element, std::string& bytes);
  Result<uint64_t> number_bits(Scalar scalar);

  // record.cpp
  Result<AttrId> record(const RecordRow& row);
  Result<AttrId> record_fields(const RecordRow& row);
  Result<AttrId> record_pattern(const RecordRow& row);
  Result<AttrId> record_custom(const RecordRow& row);
  Result<AttrId> field(const Field& field);
  Result<AttrId> pattern_field(const Field& field);
  Result<AttrId> enumeration(const EnumRow& row);
  Result<AttrId> made(const RecordRow& row, std::vector<AttrId> fields);
  Result<AttrId> conv_numbers();
  Result<AttrId> dimension_sharding();
  Result<AttrId> sharding();
  Result<AttrId> axis_list();
  Result<AttrId> bounds();
  Result<AttrId> dim_mapping();
  Result<AttrId> sharding_rule();
  Result<std::vector<int64_t>> factors();
  Result<AttrId> integer_list();  // [1, 2] -> array<i64>
  Result<std::vector<int64_t>> integers();
  Result<AttrId> record_list(const RecordRow& row);  // up to a closing bracket
  bool closes();

  // op.cpp
  Result<void> scan_lines();
  Result<Op> op();
  Result<void> op_body(Draft& draft);
  Result<void> generic_op(Draft& draft);
  Result<void> finish(Draft& draft);
  // The arguments are those of the first block, already named.
  Result<void> region(Draft& draft, size_t number, std::vector<Argument> arguments);
  Result<void> blocks(Region& region, const std::vector<Argument>& arguments);
  Result<void> block_label(Region& region);
  Result<void> resolve_operands(Draft& draft);
  Result<Operand> operand();
  Result<std::vector<Operand>> operand_list();
  Result<ValueId> value(const Operand& operand);
  Result<void> define(std::string_view name, Values values, size_t at);
  Result<void> define_argument(Block& block, const Argument& argument);
  Result<Argument> argument(bool attributes);
  Result<std::vector<Argument>> argument_list(bool attributes);  // (%a: type, ...)

  // form.cpp
  Result<void> form(Draft& draft, std::string_view form);
  Result<void> form_word(Draft& draft, std::string_view word);
  Result<void> form_attr(Draft& draft, std::string_view name, std::string_view kind);
  Result<void> form_types(Draft& draft, std::string_view kind);
  Result<void> form_custom(Draft& draft, std::string_view name);
  Result<void> add_attrs(Draft& draft);
  Result<void> same_types(Draft& draft, TypeId type);
  Result<void> from_function(Draft& draft, TypeId type);

  // custom.cpp
  Result<void> module_form(Draft& draft);
  Result<void> func_form(Draft& draft);
  Result<void> func_results(std::vector<TypeId>& types, std::vector<AttrId>& attrs);
  Result<void> constant_form(Draft& draft);
  Result<void> while_form(Draft& draft);
  Result<void> reduce_form(Draft& draft);
  Result<void> reduce_applies(Draft& draft, std::string_view inner);
  Result<void> body_form(Draft& draft);
  Result<void> barrier_form(Draft& draft);
  Result<void> dot_form(Draft& draft);
  Result<void> precision_form(Draft& draft);
  Result<void> conv_form(Draft& draft);
  Result<void> window_form(Draft& draft);
  Result<void> slice_form(Draft& draft);
  Result<void> exponent_mantissa_form(Draft& draft);
  Result<void> direction_form(Draft& draft);

  void set(Draft& draft, std::string_view name, AttrId value) { draft.op.attrs.push_back({name, value}); }
  Error at_cursor(const Error& error, size_t at) const;
  template <class T>
  Result<T> with_position(Result<T> result, size_t at) const {
    if (!result && result.error().where.empty()) return at_cursor(result.error(), at);
    return result;
  }

  Module& module_;
  TextCursor cursor_;
  std::string_view name_;                                // of the file, in locations
  std::vector<size_t> lines_;                            // where each begins
  std::unordered_map<std::string_view, Alias> aliases_;  // with their # or !
  std::vector<Scope> scopes_;
  int depth_ = 0;
};

// Counts one level of nesting while it lives.
class Nesting {
 public:
  explicit Nesting(int& depth) : depth_(depth) { ++depth_; }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  int& depth_;
};

}  // namespace trine::front::stablehlo
