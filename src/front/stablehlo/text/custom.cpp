// The parts of short forms that are languages of their own: module, func, while, reduce, dot and convolution numbers.
#include "base/text.h"
#include "front/stablehlo/build.h"
#include "front/stablehlo/dense.h"
#include "front/stablehlo/text/parser.h"

namespace trine::front::stablehlo {

Result<void> TextParser::form_custom(Draft& draft, std::string_view name) {
  using Part = Result<void> (TextParser::*)(Draft&);
  struct Row {
    std::string_view name;
    Part part;
  };
  static constexpr Row kParts[] = {
      {"module", &TextParser::module_form},
      {"func", &TextParser::func_form},
      {"constant", &TextParser::constant_form},
      {"while", &TextParser::while_form},
      {"reduce", &TextParser::reduce_form},
      {"body", &TextParser::body_form},
      {"barrier", &TextParser::barrier_form},
      {"dot", &TextParser::dot_form},
      {"precision", &TextParser::precision_form},
      {"conv", &TextParser::conv_form},
      {"window", &TextParser::window_form},
      {"slice", &TextParser::slice_form},
      {"exponent_mantissa", &TextParser::exponent_mantissa_form},
      {"direction", &TextParser::direction_form},
  };
  for (const Row& row : kParts)
    if (row.name == name) return (this->*row.part)(draft);
  CHECK(false, "a form names a part without a reader");
}

// module @name attributes {...} { ... }
Result<void> TextParser::module_form(Draft& draft) {
  if (cursor_.sees("@")) set(draft, "sym_name", TRY(make_string(module_, TRY(symbol_name()))));
  if (cursor_.accept_word("attributes")) TRY(add_attrs(draft));
  draft.op.regions.emplace_back();
  TRY(region(draft, 0, {}));
  if (draft.op.regions[0].blocks.empty()) {
    draft.op.regions[0].blocks.emplace_back();
    draft.op.regions[0].blocks[0].first_argument = uint32_t(module_.values.size());
  }
  return {};
}

Result<void> TextParser::func_results(std::vector<TypeId>& types, std::vector<AttrId>& attrs) {
  const bool list = cursor_.accept("(");
  if (list && cursor_.accept(")")) return {};
  do {
    types.push_back(TRY(type()));
    attrs.push_back(list && cursor_.sees("{") ? TRY(dictionary_attr()) : TRY(make_dictionary(module_, {})));
  } while (list && cursor_.accept(","));
  return list ? cursor_.expect(")") : Result<void>();
}

// func.func public @name(%a: type {...}) -> (type {...}) attributes {...} { ... }; a declaration has only types.
Result<void> TextParser::func_form(Draft& draft) {
  for (std::string_view visibility : {"public", "private", "nested"})
    if (cursor_.accept_word(visibility)) set(draft, "sym_visibility", TRY(make_string(module_, visibility)));
  set(draft, "sym_name", TRY(make_string(module_, TRY(symbol_name()))));
  const AttrId none = TRY(make_dictionary(module_, {}));
  Type type{.kind = TypeKind::function};
  std::vector<Argument> arguments;
  std::vector<AttrId> argument_attrs, result_attrs;
  const size_t open = cursor_.at();
  TRY(cursor_.expect("("));
  if (cursor_.sees("%") || cursor_.sees(")")) {
    cursor_.go(open);
    arguments = TRY(argument_list(true));
    for (const Argument& a : arguments) {
      type.inputs.push_back(a.type);
      argument_attrs.push_back(a.attrs == AttrId::none ? none : a.attrs);
    }
  } else {
    do {
      type.inputs.push_back(TRY(this->type()));
      argument_attrs.push_back(cursor_.sees("{") ? TRY(dictionary_attr()) : none);
    } while (cursor_.accept(","));
    TRY(cursor_.expect(")"));
  }
  if (cursor_.accept("->")) TRY(func_results(type.results, result_attrs));
  set(draft, "function_type", TRY(make_type(module_, TRY(checked(std::move(type))))));
  for (auto [name, list] : {std::pair{"arg_attrs", &argument_attrs}, std::pair{"res_attrs", &result_attrs}}) {
    bool any = false;
    for (AttrId a : *list) any = any || a != none;
    if (any) set(draft, name, TRY(make_array(module_, std::move(*list))));
  }
  if (cursor_.accept_word("attributes")) TRY(add_attrs(draft));
  draft.op.regions.emplace_back();
  return cursor_.sees("{") ? region(draft, 0, std::move(arguments)) : Result<void>();
}

// {...} dense<1> : tensor<f32>; or () <{value = ...}> : () -> type, where the types differ.
Result<void> TextParser::constant_form(Draft& draft) {
  if (cursor_.accept("(")) {
    TRY(cursor_.expect(")"));
    if (cursor_.accept("<")) {
      draft.op.attrs = TRY(dictionary());
      TRY(cursor_.expect(">"));
    }
    TRY(add_attrs(draft));
    TRY(cursor_.expect(":"));
    return from_function(draft, TRY(function_type()));
  }
  TRY(add_attrs(draft));
  const size_t at = cursor_.at();
  const AttrId value = TRY(attr());
  if (module_.attr(value).kind != AttrKind::dense) return cursor_.error_at(at, "expected a dense constant");
  set(draft, "value", value);
  draft.result_types = {module_.attr(value).type};
  return {};
}

// (%i = %a, ...) : types attributes {...} cond { ... } do { ... }; both regions have the arguments %i.
Result<void> TextParser::while_form(Draft& draft) {
  std::vector<Argument> arguments;
  TRY(cursor_.expect("("));
  if (!cursor_.sees(")")) {
    do {
      const Operand name = TRY(operand());
      arguments.push_back({.name = name.name, .at = name.at, .location = TRY(location_or(name.at))});
      TRY(cursor_.expect("="));
      draft.operands.push_back(TRY(operand()));
    } while (cursor_.accept(","));
  }
  TRY(cursor_.expect(")"));
  if (!arguments.empty()) {
    TRY(cursor_.expect(":"));
    draft.operand_types = TRY(type_list());
    if (draft.operand_types.size() != arguments.size()) return cursor_.error("a type for each operand was expected");
  }
  draft.result_types = draft.operand_types;
  for (size_t i = 0; i < arguments.size(); ++i) arguments[i].type = draft.operand_types[i];
  if (cursor_.accept_word("attributes")) TRY(add_attrs(draft));
  draft.op.regions.resize(2);
  TRY(cursor_.expect_word("cond"));
  TRY(region(draft, 0, arguments));
  TRY(cursor_.expect_word("do"));
  return region(draft, 1, std::move(arguments));
}

// (%a init: %b), ... applies stablehlo.add across dimensions = [0] : type
// (%a init: %b), ... across dimensions = [0] : type reducer(%x: t, %y: t) (...) { ... }
Result<void> TextParser::reduce_form(Draft& draft) {
  std::vector<Operand> initial;
  do {
    TRY(cursor_.expect("("));
    draft.operands.push_back(TRY(operand()));
    TRY(cursor_.expect_word("init"));
    TRY(cursor_.expect(":"));
    initial.push_back(TRY(operand()));
    TRY(cursor_.expect(")"));
  } while (cursor_.accept(","));
  draft.operands.insert(draft.operands.end(), initial.begin(), initial.end());
  const std::string_view inner = cursor_.accept_word("applies") ? cursor_.word() : std::string_view{};
  TRY(cursor_.expect_word("across"));
  TRY(cursor_.expect_word("dimensions"));
  TRY(cursor_.expect("="));
  set(draft, "dimensions", TRY(integer_list()));
  TRY(add_attrs(draft));
  TRY(cursor_.expect(":"));
  TRY(from_function(draft, TRY(function_type())));
  if (!inner.empty()) return reduce_applies(draft, inner);
  TRY(cursor_.expect_word("reducer"));
  std::vector<Argument> arguments, accumulators;
  while (cursor_.accept("(")) {
    arguments.push_back(TRY(argument(false)));
    TRY(cursor_.expect(","));
    accumulators.push_back(TRY(argument(false)));
    TRY(cursor_.expect(")"));
  }
  arguments.insert(arguments.end(), accumulators.begin(), accumulators.end());
  draft.op.regions.emplace_back();
  return region(draft, 0, std::move(arguments));
}

// The body that "applies" stands for: the named op of two arguments, and its return.
Result<void> TextParser::reduce_applies(Draft& draft, std::string_view inner) {
  const OpInfo* info = op_by_name(inner);
  if (info == nullptr || !inner.starts_with("stablehlo."))
    return cursor_.error(cat("'", inner, "' is not a StableHLO op"));
  if (draft.operand_types.empty() || module_.type(draft.operand_types[0]).kind != TypeKind::tensor)
    return cursor_.error("expected the types of tensors");
  const TypeId scalar =
      TRY(checked(Type{.kind = TypeKind::tensor, .element = module_.type(draft.operand_types[0]).element}));
  const size_t end = cursor_.at();
  const AttrId location = TRY(location_or(draft.at));
  cursor_.go(end);
  const auto first = uint32_t(module_.values.size());
  module_.values.insert(module_.values.end(), 3, scalar);
  Block body{.first_argument = first, .arguments = 2};
  if (location != AttrId::none) body.locations = {location, location};
  Op applied{.name = info->row->name, .operands = {ValueId(first), ValueId(first + 1)}, .regions = {}};
  applied.first_result = first + 2;
  applied.results = 1;
  applied.location = location;
  Op ends{.name = "stablehlo.return", .operands = {ValueId(first + 2)}, .regions = {}};
  ends.first_result = first + 3;
  ends.location = location;
  body.ops = {std::move(applied), std::move(ends)};
  draft.op.regions.emplace_back();
  draft.op.regions[0].blocks.push_back(std::move(body));
  return {};
}

Result<void> TextParser::body_form(Draft& draft) {
  std::vector<Argument> arguments = TRY(argument_list(true));
  draft.op.regions.emplace_back();
  TRY(region(draft, 0, std::move(arguments)));
  if (draft.op.regions[0].blocks.empty()) return cursor_.error("expected a body with its return");
  return {};
}

// %a, %b : types, or () for none.
Result<void> TextParser::barrier_form(Draft& draft) {
  if (cursor_.accept("(")) return cursor_.expect(")");
  draft.operands = TRY(operand_list());
  TRY(cursor_.expect(":"));
  draft.operand_types = TRY(type_list());
  draft.result_types = draft.operand_types;
  return {};
}

// batching_dims = [0] x [0], contracting_dims = [2] x [1]
Result<void> TextParser::dot_form(Draft& draft) {
  std::vector<AttrId> fields(4, TRY(make_integers(module_, {})));
  size_t at = 2;
  if (cursor_.accept_word("batching_dims")) {
    at = 0;
  } else {
    TRY(cursor_.expect_word("contracting_dims"));
  }
  for (; at < 4; at += 2) {
    TRY(cursor_.expect("="));
    fields[at] = TRY(integer_list());
    TRY(cursor_.expect("x"));
    fields[at + 1] = TRY(integer_list());
    const size_t end = cursor_.at();
    if (at == 0 && (!cursor_.accept(",") || !cursor_.accept_word("contracting_dims"))) {
      cursor_.go(end);
      break;
    }
  }
  set(draft, "dot_dimension_numbers", TRY(made(*record_by_name("stablehlo.dot"), std::move(fields))));
  return {};
}

// , precision = [DEFAULT, HIGH], algorithm = <...>; each may be missing.
Result<void> TextParser::precision_form(Draft& draft) {
  size_t begin = cursor_.at();
  if (cursor_.accept(",") && cursor_.accept_word("precision")) {
    TRY(cursor_.expect("="));
    TRY(cursor_.expect("["));
    std::vector<AttrId> list;
    if (!closes()) {
      do {
        list.push_back(TRY(enumeration(*enum_by_name("stablehlo.precision"))));
      } while (cursor_.accept(","));
    }
    TRY(cursor_.expect("]"));
    set(draft, "precision_config", TRY(make_array(module_, std::move(list))));
    begin = cursor_.at();
  } else {
    cursor_.go(begin);
  }
  if (cursor_.accept(",") && cursor_.accept_word("algorithm")) {
    TRY(cursor_.expect("="));
    set(draft, "algorithm", TRY(record(*record_by_name("stablehlo.dot_algorithm"))));
  } else {
    cursor_.go(begin);
  }
  return {};
}

Result<void> TextParser::conv_form(Draft& draft) {
  set(draft, "dimension_numbers", TRY(conv_numbers()));
  return {};
}

// stride = [1, 2], pad = [[0, 1], [2, 2]], lhs_dilate = ..., rhs_dilate = ..., reverse = [false, true]
Result<void> TextParser::window_form(Draft& draft) {
  if (cursor_.sees("}")) return {};
  do {
    const size_t begin = cursor_.at();
    const std::string_view word = cursor_.word();
    TRY(cursor_.expect("="));
    if (word == "stride" || word == "lhs_dilate" || word == "rhs_dilate") {
      const std::string_view name = word == "stride"       ? "window_strides"
                                    : word == "lhs_dilate" ? "lhs_dilation"
                                                           : "rhs_dilation";
      set(draft, name, TRY(integer_list()));
      continue;
    }
    TRY(cursor_.expect("["));
    std::vector<int64_t> values;
    while (!closes()) {
      if (!values.empty()) TRY(cursor_.expect(","));
      if (word == "pad") {
        const std::vector<int64_t> pair = TRY(integers());
        if (pair.size() != 2) return cursor_.error("padding is in pairs");
        values.insert(values.end(), pair.begin(), pair.end());
      } else if (word == "reverse") {
        values.push_back(int64_t(TRY(number_bits(Scalar::i1))));
      } else {
        return cursor_.error_at(begin, cat("a window has no '", word, "'"));
      }
    }
    TRY(cursor_.expect("]"));
    if (word == "reverse") {
      set(draft, "window_reversal", TRY(make_booleans(module_, values)));
    } else {
      const TypeId element = TRY(make_scalar(module_, Scalar::i64));
      const auto rows = int64_t(values.size() / 2);
      const TypeId tensor = TRY(checked(Type{.kind = TypeKind::tensor, .element = element, .shape = {rows, 2}}));
      std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * 8);
      set(draft, "padding", TRY(with_position(make_dense(module_, tensor, module_.keep(std::move(bytes))), begin)));
    }
  } while (cursor_.accept(","));
  return {};
}

// [0:4, 2:8:2]
Result<void> TextParser::slice_form(Draft& draft) {
  std::vector<int64_t> starts, limits, strides;
  TRY(cursor_.expect("["));
  if (!cursor_.sees("]")) {
    do {
      starts.push_back(TRY(cursor_.integer()));
      TRY(cursor_.expect(":"));
      limits.push_back(TRY(cursor_.integer()));
      strides.push_back(cursor_.accept(":") ? TRY(cursor_.integer()) : 1);
    } while (cursor_.accept(","));
  }
  TRY(cursor_.expect("]"));
  set(draft, "start_indices", TRY(make_integers(module_, starts)));
  set(draft, "limit_indices", TRY(make_integers(module_, limits)));
  set(draft, "strides", TRY(make_integers(module_, strides)));
  return {};
}

// e8m7
Result<void> TextParser::exponent_mantissa_form(Draft& draft) {
  const size_t begin = (cursor_.peek(), cursor_.at());
  const std::string_view word = cursor_.word();
  const size_t m = word.find('m');
  if (!word.starts_with("e") || m == std::string_view::npos) return cursor_.error_at(begin, "expected e<bits>m<bits>");
  for (auto [name, digits] :
       {std::pair{"exponent_bits", word.substr(1, m - 1)}, std::pair{"mantissa_bits", word.substr(m + 1)}}) {
    TextCursor number(digits);
    const auto bits = number.integer();
    if (!bits || !number.done() || *bits < 0 || *bits > INT32_MAX)
      return cursor_.error_at(begin, "expected e<bits>m<bits>");
    set(draft, name, TRY(make_integer(module_, Scalar::i32, *bits)));
  }
  return {};
}

Result<void> TextParser::direction_form(Draft& draft) {
  constexpr std::string_view kDirections[] = {"NONE", "FORWARD", "BACKWARD", "BOTH"};
  const size_t begin = cursor_.at();
  const std::string_view word = cursor_.word();
  for (size_t i = 0; i < 4; ++i) {
    if (kDirections[i] != word) continue;
    set(draft, "allowed_direction", TRY(make_integer(module_, Scalar::i32, int64_t(i))));
    return {};
  }
  return cursor_.error_at(begin, "expected NONE, FORWARD, BACKWARD or BOTH");
}

}  // namespace trine::front::stablehlo
