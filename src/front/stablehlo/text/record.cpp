// Records in text, by the syntax of their rows; the few irregular ones have a function each.
#include <algorithm>

#include "base/text.h"
#include "front/stablehlo/build.h"
#include "front/stablehlo/check.h"
#include "front/stablehlo/text/parser.h"

namespace trine::front::stablehlo {

Result<AttrId> TextParser::made(const RecordRow& row, std::vector<AttrId> fields) {
  return with_position(make_record(module_, row, std::move(fields)), cursor_.at());
}

Result<AttrId> TextParser::enumeration(const EnumRow& row) {
  const size_t begin = cursor_.at();
  const std::string_view word = cursor_.word();
  const auto found = std::find(row.values.begin(), row.values.end(), word);
  if (word.empty() || found == row.values.end())
    return cursor_.error_at(begin, cat(row.name, " has no value '", word, "'"));
  return module_.intern(Attr{.kind = AttrKind::enumeration, .name = row.name, .text = *found});
}

Result<AttrId> TextParser::record(const RecordRow& row) {
  if (depth_ >= kRecursionMax) return cursor_.error(cat("attributes nested more than ", kRecursionMax, " deep"));
  const Nesting nesting(depth_);
  if (row.syntax == Syntax::pattern) return record_pattern(row);
  return row.syntax == Syntax::custom ? record_custom(row) : record_fields(row);
}

Result<std::vector<int64_t>> TextParser::integers() {
  TRY(cursor_.expect("["));
  std::vector<int64_t> out;
  if (!cursor_.sees("]")) {
    do {
      out.push_back(TRY(cursor_.integer()));
    } while (cursor_.accept(","));
  }
  TRY(cursor_.expect("]"));
  return out;
}

Result<AttrId> TextParser::integer_list() { return make_integers(module_, TRY(integers())); }

Result<AttrId> TextParser::field(const Field& f) {
  switch (f.kind) {
    case FieldKind::integer:
    case FieldKind::count:
    case FieldKind::optional_integer:
      return make_integer(module_, Scalar::i64, TRY(cursor_.integer()));
    case FieldKind::integers:
      return integer_list();
    case FieldKind::flag:
      if (cursor_.accept_word("true")) return make_boolean(module_, true);
      TRY(cursor_.expect_word("false"));
      return make_boolean(module_, false);
    case FieldKind::real:
      return make_float(module_, Scalar::f64, TRY(number_bits(Scalar::f64)));
    case FieldKind::text:
      return make_string(module_, TRY(saved_string()));
    case FieldKind::type:
      return make_type(module_, TRY(type()));
    case FieldKind::attr:
    case FieldKind::optional_attr:
    case FieldKind::attrs:
      return attr();
  }
  return cursor_.expected("a field");
}

// <name = value, ...> in any order; what is missing has its default.
Result<AttrId> TextParser::record_fields(const RecordRow& row) {
  TRY(cursor_.expect("<"));
  std::vector<AttrId> fields(row.fields.size(), AttrId::none);
  std::vector<bool> given(row.fields.size(), false);
  if (!cursor_.sees(">")) {
    do {
      const size_t begin = (cursor_.peek(), cursor_.at());
      const std::string_view name = cursor_.word();
      const auto found =
          std::find_if(row.fields.begin(), row.fields.end(), [&](const Field& f) { return f.name == name; });
      const auto i = size_t(found - row.fields.begin());
      if (found == row.fields.end() || given[i])
        return cursor_.error_at(begin, cat("'", name, "' is not a field of ", row.name, ", or is given twice"));
      TRY(cursor_.expect("="));
      fields[i] = TRY(field(*found));
      given[i] = true;
    } while (cursor_.accept(","));
  }
  TRY(cursor_.expect(">"));
  for (size_t i = 0; i < fields.size(); ++i)
    if (!given[i]) fields[i] = TRY(with_position(default_field(module_, row.fields[i].kind), cursor_.at()));
  return made(row, std::move(fields));
}

bool TextParser::closes() {
  const char c = cursor_.peek();
  return c == ']' || c == '}' || c == '>' || c == ')';
}

Result<AttrId> TextParser::record_list(const RecordRow& row) {
  std::vector<AttrId> out;
  if (!closes()) {
    do {
      out.push_back(TRY(record(row)));
    } while (cursor_.accept(","));
  }
  return make_array(module_, std::move(out));
}

// Lists stand without brackets of their own: the pattern has them.
Result<AttrId> TextParser::pattern_field(const Field& f) {
  const bool empty = closes();
  if (f.kind == FieldKind::integers) {
    std::vector<int64_t> out;
    if (!empty) {
      do {
        out.push_back(TRY(cursor_.integer()));
      } while (cursor_.accept(","));
    }
    return make_integers(module_, out);
  }
  const RecordRow* row = record_by_name(f.of);
  if (f.kind == FieldKind::attrs) {
    if (row != nullptr) return record_list(*row);
    std::vector<AttrId> out;
    if (!empty) {
      do {
        out.push_back(TRY(make_string(module_, TRY(saved_string()))));
      } while (cursor_.accept(","));
    }
    return make_array(module_, std::move(out));
  }
  return row != nullptr ? record(*row) : field(f);
}

Result<AttrId> TextParser::record_pattern(const RecordRow& row) {
  std::vector<AttrId> fields(row.fields.size(), AttrId::none);
  std::vector<bool> given(row.fields.size(), false);
  std::string_view pattern = row.pattern;
  bool optional = false;
  while (!pattern.empty()) {
    if (pattern[0] == '`') {
      pattern.remove_prefix(1);
      optional = !optional;
      const size_t end = pattern.find('`');
      if (optional && !cursor_.sees(pattern.substr(0, 1))) {
        pattern.remove_prefix(end + 1);
        optional = false;
      }
      continue;
    }
    if (pattern[0] != '$') {
      if (pattern[0] != ' ') TRY(cursor_.expect(pattern.substr(0, 1)));
      pattern.remove_prefix(1);
      continue;
    }
    const size_t end = std::min(pattern.size(), pattern.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", 1));
    const std::string_view name = pattern.substr(1, end - 1);
    for (size_t i = 0; i < row.fields.size(); ++i) {
      if (row.fields[i].name != name) continue;
      fields[i] = TRY(pattern_field(row.fields[i]));
      given[i] = true;
    }
    pattern.remove_prefix(end);
  }
  for (size_t i = 0; i < fields.size(); ++i)
    if (!given[i]) fields[i] = TRY(default_field(module_, row.fields[i].kind));
  return made(row, std::move(fields));
}

Result<AttrId> TextParser::record_custom(const RecordRow& row) {
  if (row.name == "stablehlo.conv") {
    const size_t begin = cursor_.at();
    TRY(cursor_.expect("<"));
    if (!cursor_.sees("[")) {  // written out, as for numbers that are no permutation
      cursor_.go(begin);
      return record_fields(row);
    }
    const AttrId conv = TRY(conv_numbers());
    TRY(cursor_.expect(">"));
    return conv;
  }
  if (row.name == "stablehlo.bounds") return bounds();
  if (row.name == "sdy.dimension_sharding") return dimension_sharding();
  if (row.name == "sdy.sharding") return sharding();
  if (row.name == "sdy.dim_mapping") return dim_mapping();
  if (row.name == "sdy.op_sharding_rule") return sharding_rule();
  return cursor_.error(cat(row.name, " cannot stand here"));
}

// <4, ?>, or as older printers have it <bounds = [4, ?]>.
Result<AttrId> TextParser::bounds() {
  TRY(cursor_.expect("<"));
  const bool named = cursor_.accept_word("bounds");
  if (named) TRY(cursor_.expect("="));
  if (named) TRY(cursor_.expect("["));
  std::vector<int64_t> sizes;
  if (!cursor_.sees(named ? "]" : ">")) {
    do {
      sizes.push_back(cursor_.accept("?") ? kDynamic : TRY(cursor_.integer()));
    } while (cursor_.accept(","));
  }
  if (named) TRY(cursor_.expect("]"));
  TRY(cursor_.expect(">"));
  return made(*record_by_name("stablehlo.bounds"), {TRY(make_integers(module_, sizes))});
}

// [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]: letters are batch, feature, input and output feature.
Result<AttrId> TextParser::conv_numbers() {
  std::vector<AttrId> fields;
  for (std::string_view letters : {"bf", "io", "bf"}) {
    if (fields.size() == 3) TRY(cursor_.expect("x"));
    if (fields.size() == 6) TRY(cursor_.expect("->"));
    TRY(cursor_.expect("["));
    int64_t lettered[2] = {-1, -1};
    std::vector<std::pair<int64_t, int64_t>> spatial;  // its number, its position
    int64_t position = 0;
    do {
      const size_t begin = (cursor_.peek(), cursor_.at());
      if (const std::string_view word = cursor_.word(); !word.empty()) {
        const size_t which = word.size() == 1 ? letters.find(word[0]) : std::string_view::npos;
        if (which == std::string_view::npos || lettered[which] >= 0)
          return cursor_.error_at(begin,
                                  cat("expected ", letters.substr(0, 1), ", ", letters.substr(1), " or a number"));
        lettered[which] = position++;
      } else {
        spatial.emplace_back(TRY(cursor_.integer()), position++);
      }
    } while (cursor_.accept(","));
    TRY(cursor_.expect("]"));
    std::sort(spatial.begin(), spatial.end());
    std::vector<int64_t> positions;
    for (auto [number, where] : spatial) {
      if (number != int64_t(positions.size()))
        return cursor_.error("spatial dimensions are numbered 0, 1, ... once each");
      positions.push_back(where);
    }
    for (int64_t where : lettered) {
      if (where < 0) return cursor_.error(cat("expected both ", letters.substr(0, 1), " and ", letters.substr(1)));
      fields.push_back(TRY(make_integer(module_, Scalar::i64, where)));
    }
    fields.push_back(TRY(make_integers(module_, positions)));
  }
  return made(*record_by_name("stablehlo.conv"), std::move(fields));
}

// {"x", "y":(1)2, ?}p1: axes, open or closed, priority.
Result<AttrId> TextParser::dimension_sharding() {
  TRY(cursor_.expect("{"));
  std::vector<AttrId> axes;
  bool closed = true;
  while (!cursor_.accept("}")) {
    if (!axes.empty()) TRY(cursor_.expect(","));
    if (cursor_.accept("?")) {
      closed = false;
      TRY(cursor_.expect("}"));
      break;
    }
    axes.push_back(TRY(record(*record_by_name("sdy.axis_ref"))));
  }
  AttrId priority = AttrId::none;
  if (cursor_.rest().starts_with("p")) {
    cursor_.go(cursor_.at() + 1);
    priority = TRY(make_integer(module_, Scalar::i64, TRY(cursor_.integer())));
  }
  return made(*record_by_name("sdy.dimension_sharding"),
              {TRY(make_array(module_, std::move(axes))), TRY(make_boolean(module_, closed)), priority});
}

Result<AttrId> TextParser::axis_list() {
  TRY(cursor_.expect("{"));
  const AttrId axes = TRY(record_list(*record_by_name("sdy.axis_ref")));
  TRY(cursor_.expect("}"));
  return axes;
}

// <@mesh, [{"x"}, {}], replicated={"y"}, unreduced=max{"z"}>.
Result<AttrId> TextParser::sharding() {
  TRY(cursor_.expect("<"));
  AttrId mesh{};
  if (cursor_.accept_word("mesh")) {
    mesh = TRY(record(*record_by_name("sdy.mesh")));
  } else {
    mesh = TRY(make_symbol(module_, TRY(symbol_name())));
  }
  TRY(cursor_.expect(","));
  TRY(cursor_.expect("["));
  const AttrId dimensions = TRY(record_list(*record_by_name("sdy.dimension_sharding")));
  TRY(cursor_.expect("]"));
  AttrId lists[2] = {TRY(make_array(module_, {})), TRY(make_array(module_, {}))};
  int64_t reduction = 0;
  while (cursor_.accept(",")) {
    const bool unreduced = cursor_.accept_word("unreduced");
    if (!unreduced) TRY(cursor_.expect_word("replicated"));
    TRY(cursor_.expect("="));
    if (unreduced && !cursor_.accept_word("sum"))
      reduction = cursor_.accept_word("max") ? 1 : cursor_.accept_word("min") ? 2 : 0;
    lists[unreduced] = TRY(axis_list());
  }
  TRY(cursor_.expect(">"));
  return made(*record_by_name("sdy.sharding"),
              {mesh, dimensions, lists[0], lists[1], TRY(make_integer(module_, Scalar::i64, reduction))});
}

// Factors are letters i to z, then z_1, z_2, ...; several stand together.
Result<std::vector<int64_t>> TextParser::factors() {
  constexpr int64_t kLast = 'z' - 'i';
  const size_t begin = cursor_.at();
  std::string_view word = cursor_.word();
  std::vector<int64_t> out;
  while (!word.empty()) {
    const char c = word[0];
    if (c < 'i' || c > 'z') return cursor_.error_at(begin, "factors are letters i to z, then z_1, z_2, ...");
    int64_t number = c - 'i';
    word.remove_prefix(1);
    if (c == 'z' && word.starts_with("_")) {
      int64_t beyond = 0;
      for (word.remove_prefix(1); !word.empty() && word[0] >= '0' && word[0] <= '9' && beyond < 100000;
           word.remove_prefix(1))
        beyond = beyond * 10 + (word[0] - '0');
      if (beyond == 0 || beyond > 100000) return cursor_.error_at(begin, "expected a small number after z_");
      number = kLast + beyond;
    }
    out.push_back(number);
  }
  return out;
}

Result<AttrId> TextParser::dim_mapping() {
  return made(*record_by_name("sdy.dim_mapping"), {TRY(make_integers(module_, TRY(factors())))});
}

// <([i, k],[k, j])->([i, j]) {i=8, j=4, k=2} reduction={k}, custom>.
Result<AttrId> TextParser::sharding_rule() {
  const RecordRow& mapping = *record_by_name("sdy.tensor_mapping");
  TRY(cursor_.expect("<"));
  TRY(cursor_.expect("("));
  const AttrId operands = TRY(record_list(mapping));
  TRY(cursor_.expect(")"));
  TRY(cursor_.expect("->"));
  TRY(cursor_.expect("("));
  const AttrId results = TRY(record_list(mapping));
  TRY(cursor_.expect(")"));
  std::vector<int64_t> sizes;
  if (cursor_.accept("{")) {
    do {
      if (TRY(factors()) != std::vector<int64_t>{int64_t(sizes.size())})
        return cursor_.error("factors are sized in order");
      TRY(cursor_.expect("="));
      sizes.push_back(TRY(cursor_.integer()));
    } while (cursor_.accept(","));
    TRY(cursor_.expect("}"));
  }
  std::vector<AttrId> fields = {TRY(make_integers(module_, sizes)), operands, results};
  for (std::string_view kind : {"reduction", "need_replication", "permutation", "blocked_propagation"}) {
    std::vector<int64_t> list;
    if (cursor_.accept_word(kind)) {
      TRY(cursor_.expect("="));
      TRY(cursor_.expect("{"));
      do {
        const std::vector<int64_t> one = TRY(factors());
        if (one.size() != 1) return cursor_.error("expected one factor");
        list.push_back(one[0]);
      } while (cursor_.accept(","));
      TRY(cursor_.expect("}"));
    }
    fields.push_back(TRY(make_integers(module_, list)));
  }
  const bool custom = cursor_.accept(",");
  if (custom) TRY(cursor_.expect_word("custom"));
  fields.push_back(TRY(make_boolean(module_, custom)));
  TRY(cursor_.expect(">"));
  return made(*record_by_name("sdy.op_sharding_rule"), std::move(fields));
}

}  // namespace trine::front::stablehlo
