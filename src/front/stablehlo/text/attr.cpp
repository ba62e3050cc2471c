// Attributes in text: numbers, strings, symbols, lists, dictionaries, array<...>, locations, aliases, other dialects'.
#include <algorithm>

#include "base/text.h"
#include "front/stablehlo/build.h"
#include "front/stablehlo/check.h"
#include "front/stablehlo/text/parser.h"

namespace trine::front::stablehlo {

Error TextParser::at_cursor(const Error& error, size_t at) const {
  Error out = cursor_.error_at(at, error.message);
  out.code = error.code;
  return out;
}

Result<AttrId> TextParser::attr() {
  if (depth_ >= kRecursionMax) return cursor_.error(cat("attributes nested more than ", kRecursionMax, " deep"));
  const Nesting nesting(depth_);
  const size_t begin = cursor_.at();
  return with_position(attr_inside(), begin);
}

Result<AttrId> TextParser::attr_inside() {
  const char next = cursor_.peek();
  const size_t begin = cursor_.at();
  switch (next) {
    case '[':
      return array_attr();
    case '{':
      return dictionary_attr();
    case '@':
      return symbol_attr();
    case '#':
      return dialect_attr();
    case '"':
      return make_string(module_, TRY(saved_string()));
    case '(':
    case '!':
      return make_type(module_, TRY(type()));
    default:
      break;
  }
  if (next == '-' || (next >= '0' && next <= '9')) return number_attr();
  return word_attr(cursor_.word(), begin);
}

Result<AttrId> TextParser::word_attr(std::string_view word, size_t at) {
  if (word == "true" || word == "false") return make_boolean(module_, word == "true");
  if (word == "unit") return module_.intern(Attr{});
  if (word == "dense") return dense_attr();
  if (word == "array") return packed_attr();
  if (word == "loc") {
    cursor_.go(at);
    const AttrId location = TRY(this->location());
    if (location != AttrId::none) return location;
    return module_.intern(Attr{.kind = AttrKind::record, .name = "loc.unknown"});
  }
  cursor_.go(at);
  if (word == "dense_resource" || word == "sparse" || word == "affine_map" || word == "affine_set" ||
      word == "opaque" || word == "distinct" || word == "strided") {
    Error error = cursor_.error(cat("attributes of the form ", word, "<...> are not read"));
    error.code = Code::unsupported;
    return error;
  }
  const auto type = this->type();
  if (!type && cursor_.at() == at) return cursor_.expected("an attribute");
  if (!type) return type.error();
  return make_type(module_, *type);
}

// 3, 3 : i32, 0.5, 0.5 : f32, 0x7FC00000 : f32.
Result<AttrId> TextParser::number_attr() {
  const size_t begin = cursor_.at();
  const std::string_view digits = cursor_.number();
  if (digits.empty()) return cursor_.expected("a number");
  const bool decimal_point = digits.find('.') != std::string_view::npos;
  Scalar scalar = decimal_point ? Scalar::f64 : Scalar::i64;
  if (cursor_.accept(":")) {
    const size_t at = cursor_.at();
    const Type& given = module_.type(TRY(type()));
    if (given.kind != TypeKind::scalar) return cursor_.error_at(at, "a number is of an integer or floating type");
    scalar = given.scalar;
  }
  const size_t end = cursor_.at();
  cursor_.go(begin);
  const uint64_t bits = TRY(number_bits(scalar));
  cursor_.go(end);
  return is_floating(scalar) ? make_float(module_, scalar, bits) : make_integer(module_, scalar, int64_t(bits));
}

Result<std::string_view> TextParser::saved_string() { return module_.keep(TRY(cursor_.quoted())); }

Result<std::string_view> TextParser::symbol_name() {
  TRY(cursor_.expect("@"));
  if (cursor_.rest().starts_with("\"")) return saved_string();
  const std::string_view name = cursor_.suffix();
  if (name.empty()) return cursor_.expected("a name after @");
  return name;
}

Result<AttrId> TextParser::symbol_attr() {
  Attr symbol{.kind = AttrKind::symbol, .text = TRY(symbol_name())};
  while (cursor_.accept("::")) symbol.elements.push_back(TRY(make_symbol(module_, TRY(symbol_name()))));
  return module_.intern(std::move(symbol));
}

Result<AttrId> TextParser::array_attr() {
  TRY(cursor_.expect("["));
  std::vector<AttrId> elements;
  if (!cursor_.sees("]")) {
    do {
      elements.push_back(TRY(attr()));
    } while (cursor_.accept(","));
  }
  TRY(cursor_.expect("]"));
  return make_array(module_, std::move(elements));
}

Result<std::string_view> TextParser::name_or_quoted(std::string_view what) {
  if (cursor_.sees("\"")) return saved_string();
  const std::string_view name = cursor_.word();
  if (name.empty()) return cursor_.expected(what);
  return name;
}

Result<std::vector<NamedAttr>> TextParser::dictionary() {
  TRY(cursor_.expect("{"));
  std::vector<NamedAttr> attrs;
  if (!cursor_.sees("}")) {
    do {
      const std::string_view name = TRY(name_or_quoted("an attribute's name"));
      attrs.push_back({name, cursor_.accept("=") ? TRY(attr()) : TRY(module_.intern(Attr{}))});
    } while (cursor_.accept(","));
  }
  TRY(cursor_.expect("}"));
  return attrs;
}

Result<AttrId> TextParser::dictionary_attr() { return make_dictionary(module_, TRY(dictionary())); }

// After "array": <i64: 1, 2>, <i1: true>, <i64>.
Result<AttrId> TextParser::packed_attr() {
  TRY(cursor_.expect("<"));
  const size_t at = cursor_.at();
  const TypeId element = TRY(type());
  if (!is_packable(module_.type(element))) return cursor_.error_at(at, "an array of another type than MLIR has");
  std::string bytes;
  if (cursor_.accept(":")) {
    do {
      TRY(dense_element(element, bytes));
    } while (cursor_.accept(","));
  }
  TRY(cursor_.expect(">"));
  return module_.intern(Attr{.kind = AttrKind::packed, .type = element, .text = module_.keep(std::move(bytes))});
}

Result<AttrId> TextParser::alias(std::string_view name, size_t at) {
  const auto known = aliases_.find(name);
  if (known == aliases_.end()) return cursor_.error_at(at, cat(name, " is not defined"));
  Alias& found = known->second;
  if (found.attr != AttrId::none) return found.attr;
  if (found.reading) return cursor_.error_at(at, cat(name, " contains itself"));
  const size_t back = cursor_.at();
  cursor_.go(found.at);
  found.reading = true;
  const AttrId id = TRY(attr());
  found = {.at = found.at, .attr = id};
  cursor_.go(back);
  return id;
}

// From '#': an alias; #dialect.name<...> or #dialect<name ...> with a row; or another, kept as text.
Result<AttrId> TextParser::dialect_attr() {
  const size_t begin = cursor_.at();
  TRY(cursor_.expect("#"));
  const std::string_view head = cursor_.suffix();
  const bool dotted = head.find('.') != std::string_view::npos;
  const bool body = cursor_.rest().starts_with("<");
  if (!dotted && !body) return alias(cursor_.from(begin), begin);
  std::string name(head);
  if (!dotted) {
    TRY(cursor_.expect("<"));
    name += cat(".", cursor_.word());
  }
  if (name == "stablehlo.type_extensions") name = "stablehlo.bounds";
  const EnumRow* enum_row = enum_by_name(name);
  const RecordRow* record_row = name.starts_with("loc.") ? nullptr : record_by_name(name);
  if (enum_row == nullptr && record_row == nullptr) {
    cursor_.go(begin + 1 + head.size());
    if (body) TRY(cursor_.balanced());
    const std::string_view text = cursor_.from(begin);
    if (text.find('\n') != std::string_view::npos)
      return cursor_.error_at(begin, "a line break in an attribute that has no row");
    return module_.intern(Attr{.kind = AttrKind::opaque, .text = text});
  }
  AttrId id{};
  if (record_row != nullptr) {
    id = TRY(record(*record_row));
  } else if (dotted) {
    TRY(cursor_.expect("<"));
    id = TRY(enumeration(*enum_row));
    TRY(cursor_.expect(">"));
  } else {
    id = TRY(enumeration(*enum_row));
  }
  if (!dotted) TRY(cursor_.expect(">"));
  return id;
}

Result<AttrId> TextParser::location_or(size_t at) {
  const size_t begin = cursor_.at();
  if (cursor_.accept_word("loc")) {
    cursor_.go(begin);
    return location();
  }
  const auto line = std::upper_bound(lines_.begin(), lines_.end(), at);
  std::vector<AttrId> fields = {TRY(make_string(module_, name_))};
  fields.push_back(TRY(make_integer(module_, Scalar::i64, line - lines_.begin())));
  fields.push_back(TRY(make_integer(module_, Scalar::i64, int64_t(at - line[-1] + 1))));
  return made(*record_by_name("loc.file"), std::move(fields));
}

Result<AttrId> TextParser::location() {
  TRY(cursor_.expect_word("loc"));
  TRY(cursor_.expect("("));
  const AttrId id = TRY(location_inside());
  TRY(cursor_.expect(")"));
  return id != AttrId::none && module_.attr(id).name == "loc.unknown" ? AttrId::none : id;
}

// unknown, #loc1, "file":1:2, "file":1:2 to 3:4 or to :4, "name"(at), callsite(a at b), fused<metadata>[a, b].
Result<AttrId> TextParser::location_inside() {
  if (depth_ >= kRecursionMax) return cursor_.error(cat("locations nested more than ", kRecursionMax, " deep"));
  const Nesting nesting(depth_);
  const size_t begin = cursor_.at();
  auto unknown = [&] { return module_.intern(Attr{.kind = AttrKind::record, .name = "loc.unknown"}); };
  if (cursor_.accept_word("unknown")) return unknown();
  if (cursor_.accept("#")) {
    cursor_.suffix();
    const AttrId id = TRY(alias(trim(cursor_.from(begin)), begin));
    if (!module_.attr(id).name.starts_with("loc.")) return cursor_.error_at(begin, "an alias of other than a location");
    return id;
  }
  if (cursor_.accept_word("callsite")) {
    TRY(cursor_.expect("("));
    const AttrId callee = TRY(location_inside());
    TRY(cursor_.expect_word("at"));
    const AttrId caller = TRY(location_inside());
    TRY(cursor_.expect(")"));
    return made(*record_by_name("loc.call"), {callee, caller});
  }
  if (cursor_.accept_word("fused")) {
    AttrId metadata = AttrId::none;
    if (cursor_.accept("<")) {
      metadata = TRY(attr());
      TRY(cursor_.expect(">"));
    }
    TRY(cursor_.expect("["));
    std::vector<AttrId> parts;
    if (!cursor_.sees("]")) {
      do {
        parts.push_back(TRY(location_inside()));
      } while (cursor_.accept(","));
    }
    TRY(cursor_.expect("]"));
    return made(*record_by_name("loc.fused"), {TRY(make_array(module_, std::move(parts))), metadata});
  }
  // A string is a file where a line follows, else a name.
  const AttrId name = TRY(make_string(module_, TRY(saved_string())));
  if (!cursor_.accept(":")) {
    AttrId child{};
    if (cursor_.accept("(")) {
      child = TRY(location_inside());
      TRY(cursor_.expect(")"));
    } else {
      child = TRY(unknown());
    }
    return made(*record_by_name("loc.name"), {name, child});
  }
  auto position = [&]() -> Result<AttrId> {
    const int64_t n = TRY(cursor_.integer());
    if (n < 0 || n >> 32 != 0) return cursor_.error("a line or column of more than 32 bits");
    return make_integer(module_, Scalar::i64, n);
  };
  const AttrId line = TRY(position());
  TRY(cursor_.expect(":"));
  const AttrId column = TRY(position());
  if (!cursor_.accept_word("to")) return made(*record_by_name("loc.file"), {name, line, column});
  const AttrId end_line = cursor_.sees(":") ? line : TRY(position());
  TRY(cursor_.expect(":"));
  return made(*record_by_name("loc.range"), {name, line, column, end_line, TRY(position())});
}

}  // namespace trine::front::stablehlo
