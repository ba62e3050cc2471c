// The short forms, read by the patterns of ops.cpp, word by word: % an operand, %* a list of them, %, a list where a
// comma follows each; {name:kind} an attribute's value; attrs the dictionary; :kind the types; <name> a part of its
// own in custom.cpp; [ ... ] what may be missing; anything else stands as it is.
#include "base/text.h"
#include "front/stablehlo/build.h"
#include "front/stablehlo/text/parser.h"

namespace trine::front::stablehlo {

namespace {

bool opens(std::string_view word) { return word.size() > 1 && word[0] == '['; }
bool closes_group(std::string_view word) { return word.size() > 1 && word.back() == ']'; }
bool is_letter(char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }

}  // namespace

Result<void> TextParser::form(Draft& draft, std::string_view form) {
  bool skipping = false;
  for (std::string_view word : split(form, ' ')) {
    const bool last = closes_group(word);
    if (opens(word)) {
      word.remove_prefix(1);
      const size_t begin = cursor_.at();
      skipping = !(is_letter(word[0]) ? cursor_.accept_word(word) : cursor_.sees(word));
      if (!skipping) cursor_.go(begin);
    }
    if (last) word.remove_suffix(1);
    if (!skipping) TRY(form_word(draft, word));
    if (last) skipping = false;
  }
  return {};
}

Result<void> TextParser::form_word(Draft& draft, std::string_view word) {
  if (word == "%") {
    draft.operands.push_back(TRY(operand()));
    return {};
  }
  if (word == "%*") {
    for (const Operand& o : TRY(operand_list())) draft.operands.push_back(o);
    return {};
  }
  if (word == "%,") {
    while (cursor_.sees("%")) {
      draft.operands.push_back(TRY(operand()));
      TRY(cursor_.expect(","));
    }
    return {};
  }
  if (word == "attrs") return add_attrs(draft);
  if (word.size() > 2 && word[0] == '{') {
    const size_t colon = word.find(':');
    return form_attr(draft, word.substr(1, colon - 1), word.substr(colon + 1, word.size() - colon - 2));
  }
  if (word.size() > 1 && word[0] == ':') return form_types(draft, word.substr(1));
  if (word.size() > 1 && word[0] == '<') return form_custom(draft, word.substr(1, word.size() - 2));
  return is_letter(word[0]) ? cursor_.expect_word(word) : cursor_.expect(word);
}

Result<void> TextParser::add_attrs(Draft& draft) {
  if (!cursor_.sees("{")) return {};
  for (const NamedAttr& a : TRY(dictionary())) draft.op.attrs.push_back(a);
  return {};
}

Result<void> TextParser::form_attr(Draft& draft, std::string_view name, std::string_view kind) {
  AttrId value{};
  if (kind == "i64" || kind == "i32") {
    value = TRY(make_integer(module_, kind == "i64" ? Scalar::i64 : Scalar::i32, TRY(cursor_.integer())));
  } else if (kind == "integers") {
    value = TRY(integer_list());
  } else if (kind == "symbol") {
    value = TRY(make_symbol(module_, TRY(symbol_name())));
  } else if (kind == "symbol_text") {
    value = TRY(make_string(module_, TRY(symbol_name())));
  } else if (kind == "shardings") {
    TRY(cursor_.expect("["));
    const AttrId list = TRY(record_list(*record_by_name("sdy.sharding")));
    TRY(cursor_.expect("]"));
    value = TRY(made(*record_by_name("sdy.sharding_per_value"), {list}));
  } else if (kind == "attr") {
    value = TRY(attr());
  } else if (const EnumRow* row = enum_by_name(kind)) {
    value = TRY(enumeration(*row));
  } else {
    const RecordRow* record_row = record_by_name(kind);
    CHECK(record_row != nullptr, "a form names a kind of attribute without a row");
    value = TRY(record(*record_row));
  }
  set(draft, name, value);
  return {};
}

Result<void> TextParser::same_types(Draft& draft, TypeId type) {
  draft.operand_types.assign(draft.operands.size(), type);
  draft.result_types = {type};
  return {};
}

Result<void> TextParser::from_function(Draft& draft, TypeId id) {
  const Type& type = module_.type(id);
  if (type.kind != TypeKind::function) return cursor_.error("expected a function's type");
  draft.operand_types = type.inputs;
  draft.result_types = type.results;
  return {};
}

Result<void> TextParser::form_types(Draft& draft, std::string_view kind) {
  if (kind == "operands") {
    if (!draft.operands.empty()) TRY(cursor_.expect(":"));
    if (!draft.operands.empty()) draft.operand_types = TRY(type_list());
    return {};
  }
  TRY(cursor_.expect(":"));
  if (kind == "function") return from_function(draft, TRY(function_type()));
  std::vector<TypeId> types = TRY(type_list());
  const TypeId first = types[0];
  const TypeKind first_kind = module_.type(first).kind;
  if (kind == "arrow" || kind == "arrows") {
    draft.operand_types = std::move(types);
    TRY(cursor_.expect("->"));
    draft.result_types = TRY(types_or_one());
    return {};
  }
  if (kind == "cast") {
    draft.operand_types = std::move(types);
    TRY(cursor_.expect_word("to"));
    draft.result_types = TRY(type_list());
    return {};
  }
  if (kind == "results") {
    draft.result_types = std::move(types);
    return {};
  }
  if (kind == "select" && types.size() == 2) {
    draft.operand_types = {first, types[1], types[1]};
    draft.result_types = {types[1]};
    return {};
  }
  // From here on one type says all of them.
  if (types.size() != 1) return cursor_.error(cat("expected one type, found ", types.size()));
  if (kind == "operand_only") {
    draft.operand_types = {first};
    return {};
  }
  if (kind == "tuple") {
    if (first_kind != TypeKind::tuple) return cursor_.error("expected a tuple's type");
    draft.operand_types = module_.type(first).inputs;
    draft.result_types = {first};
    return {};
  }
  if (first_kind == TypeKind::function) return from_function(draft, first);
  if (kind == "complex") {
    Type real = module_.type(first);
    if (real.kind != TypeKind::tensor || module_.type(real.element).kind != TypeKind::complex)
      return cursor_.error("expected a tensor of complex numbers");
    real.element = module_.type(real.element).element;
    draft.operand_types.assign(2, TRY(checked(std::move(real))));
    draft.result_types = {first};
    return {};
  }
  if (kind == "select") return cursor_.error("expected two types, or a function's type");
  return same_types(draft, first);  // same, one
}

}  // namespace trine::front::stablehlo
