// Records and enumerations, by the syntax of their rows; the mirror of text/record.cpp.
#include <cstring>

#include "base/text.h"
#include "front/stablehlo/print/printer.h"

namespace trine::front::stablehlo {

namespace {

std::vector<int64_t> integers_of(const Attr& packed) {
  std::vector<int64_t> out(packed.text.size() / 8);
  if (!out.empty()) std::memcpy(out.data(), packed.text.data(), out.size() * 8);
  return out;
}

// Whether a field holds what is left out of the text.
bool is_default(const Module& module, AttrId id) {
  if (id == AttrId::none) return true;
  const Attr& a = module.attr(id);
  switch (a.kind) {
    case AttrKind::integer:
    case AttrKind::floating:
    case AttrKind::boolean:
      return a.bits == 0;
    case AttrKind::packed:
      return a.text.empty();
    case AttrKind::array:
      return a.elements.empty();
    default:
      return false;
  }
}

}  // namespace

const Attr& Printer::field_of(const Attr& a, std::string_view name) const { return *module_.field(a, name); }

void Printer::enumeration(const Attr& a) {
  const size_t dot = a.name.find('.');
  const EnumRow* row = enum_by_name(a.name);
  if (row != nullptr && row->angled) {
    out_ += cat("#", a.name, "<", a.text, ">");
  } else {
    out_ += cat("#", a.name.substr(0, dot), "<", a.name.substr(dot + 1), " ", a.text, ">");
  }
}

void Printer::record(const Attr& a) {
  if (a.name.starts_with("loc.")) {
    out_ += "loc(";
    location(a);
    out_ += ')';
    return;
  }
  const RecordRow& row = *record_by_name(a.name);
  const size_t dot = a.name.find('.');
  // #dialect.name<...> where the body has its own angle brackets, else #dialect<name...>.
  const bool bare = row.pattern.starts_with("$") || row.name == "sdy.dim_mapping";  // would be read as of the name
  const bool angled = !bare && (row.syntax != Syntax::pattern || row.pattern.starts_with("<"));
  out_ += angled ? cat("#", a.name) : cat("#", a.name.substr(0, dot), "<", a.name.substr(dot + 1));
  if (bare) out_ += ' ';
  record_body(a, row);
  if (!angled) out_ += '>';
}

void Printer::record_body(const Attr& a, const RecordRow& row) {
  if (full()) return;
  if (row.syntax == Syntax::pattern) return record_pattern(a, row);
  if (row.syntax == Syntax::custom) return record_custom(a, row);
  record_fields(a, row);
}

void Printer::integers(const Attr& packed, std::string_view dynamic) {
  list(integers_of(packed),
       [&](int64_t v) { out_ += v == kDynamic && !dynamic.empty() ? std::string(dynamic) : cat(v); });
}

void Printer::field(const Field& f, AttrId id) {
  const Attr& a = module_.attr(id);
  switch (f.kind) {
    case FieldKind::integer:
    case FieldKind::count:
    case FieldKind::optional_integer:
      out_ += cat(int64_t(a.bits));
      return;
    case FieldKind::integers:
      out_ += '[';
      integers(a);
      out_ += ']';
      return;
    case FieldKind::real:
      number(Scalar::f64, a.bits);
      return;
    case FieldKind::flag:
    case FieldKind::text:
    case FieldKind::type:
    case FieldKind::attr:
    case FieldKind::optional_attr:
    case FieldKind::attrs:
      attr(id);
      return;
  }
}

void Printer::record_fields(const Attr& a, const RecordRow& row) {
  out_ += '<';
  bool first = true;
  for (size_t i = 0; i < row.fields.size(); ++i) {
    if (row.syntax == Syntax::fields_given && is_default(module_, a.elements[i])) continue;
    if (!first) out_ += ", ";
    first = false;
    out_ += cat(row.fields[i].name, " = ");
    field(row.fields[i], a.elements[i]);
  }
  out_ += '>';
}

void Printer::pattern_field(const Field& f, AttrId id) {
  const Attr& a = module_.attr(id);
  const RecordRow* nested = record_by_name(f.of);
  if (f.kind == FieldKind::integers) {
    integers(a);
  } else if (f.kind == FieldKind::attrs) {
    list(a.elements, [&](AttrId e) { nested != nullptr ? record_body(module_.attr(e), *nested) : attr(e); });
  } else if (nested != nullptr) {
    record_body(a, *nested);
  } else {
    field(f, id);
  }
}

void Printer::record_pattern(const Attr& a, const RecordRow& row) {
  std::string_view pattern = row.pattern;
  auto index_of = [&](std::string_view name) {
    size_t i = 0;
    while (row.fields[i].name != name) ++i;
    return i;
  };
  auto name_at = [&](size_t dollar) {
    const size_t end = std::min(pattern.size(), pattern.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", dollar + 1));
    return pattern.substr(dollar + 1, end - dollar - 1);
  };
  while (!pattern.empty()) {
    const char c = pattern[0];
    if (c == '`') {
      const size_t end = pattern.find('`', 1);
      const bool opening = end != std::string_view::npos;
      if (opening && is_default(module_, a.elements[index_of(name_at(pattern.find('$')))])) pattern.remove_prefix(end);
      pattern.remove_prefix(1);
    } else if (c == '$') {
      const std::string_view name = name_at(0);
      const size_t i = index_of(name);
      pattern_field(row.fields[i], a.elements[i]);
      pattern.remove_prefix(name.size() + 1);
    } else {
      out_ += c;
      pattern.remove_prefix(1);
    }
  }
}

void Printer::record_custom(const Attr& a, const RecordRow& row) {
  if (a.name == "stablehlo.conv") {
    if (!conv_numbers(a, row)) record_fields(a, row);
  } else if (a.name == "stablehlo.bounds") {
    out_ += '<';
    integers(field_of(a, "bounds"), "?");
    out_ += '>';
  } else if (a.name == "sdy.dimension_sharding") {
    dimension_sharding(a);
  } else if (a.name == "sdy.sharding") {
    sharding(a);
  } else if (a.name == "sdy.dim_mapping") {
    for (int64_t f : integers_of(field_of(a, "factor_indices"))) factor(f);
  } else if (a.name == "sdy.op_sharding_rule") {
    sharding_rule(a);
  }
}

// False where the numbers are no permutation and have to be written out.
bool Printer::conv_numbers(const Attr& a, const RecordRow&) {
  std::string text = "<";
  for (size_t part = 0; part < 3; ++part) {
    const std::vector<int64_t> spatial = integers_of(module_.attr(a.elements[part * 3 + 2]));
    std::vector<std::string> positions(spatial.size() + 2);
    auto put = [&](uint64_t position, std::string what) {
      if (position >= positions.size() || !positions[position].empty()) return false;
      positions[position] = std::move(what);
      return true;
    };
    for (size_t i = 0; i < 2; ++i)
      if (!put(module_.attr(a.elements[part * 3 + i]).bits, std::string(1, (part == 1 ? "io" : "bf")[i]))) return false;
    for (size_t i = 0; i < spatial.size(); ++i)
      if (!put(uint64_t(spatial[i]), cat(i))) return false;
    text += cat(part == 0 ? "" : part == 1 ? "x" : "->", "[", join(positions, ", "), "]");
  }
  out_ += text + ">";
  return true;
}

void Printer::dimension_sharding(const Attr& a) {
  const RecordRow& axis = *record_by_name("sdy.axis_ref");
  const std::vector<AttrId>& axes = field_of(a, "axes").elements;
  out_ += '{';
  list(axes, [&](AttrId e) { record_body(module_.attr(e), axis); });
  if (field_of(a, "is_closed").bits == 0) out_ += axes.empty() ? "?" : ", ?";
  out_ += '}';
  if (const Attr* priority = module_.field(a, "priority")) out_ += cat("p", priority->bits);
}

void Printer::sharding(const Attr& a) {
  const RecordRow& axis = *record_by_name("sdy.axis_ref");
  out_ += '<';
  const Attr& mesh = field_of(a, "mesh_or_ref");
  if (mesh.kind == AttrKind::symbol) {
    symbol(mesh.text);
  } else {
    out_ += "mesh";
    record_body(mesh, *record_by_name("sdy.mesh"));
  }
  out_ += ", [";
  list(field_of(a, "dim_shardings").elements, [&](AttrId d) { dimension_sharding(module_.attr(d)); });
  out_ += ']';
  constexpr std::string_view kReductions[] = {"", "max", "min"};
  for (std::string_view which : {"replicated", "unreduced"}) {
    const std::vector<AttrId>& axes = field_of(a, cat(which, "_axes")).elements;
    if (axes.empty()) continue;
    out_ += cat(", ", which, "=", which == "unreduced" ? kReductions[field_of(a, "reduction_op").bits] : "", "{");
    list(axes, [&](AttrId e) { record_body(module_.attr(e), axis); });
    out_ += '}';
  }
  out_ += '>';
}

void Printer::factor(int64_t number) {
  constexpr int64_t kLast = 'z' - 'i';
  out_ += number <= kLast ? std::string(1, char('i' + number)) : cat("z_", number - kLast);
}

void Printer::sharding_rule(const Attr& a) {
  const RecordRow& mapping = *record_by_name("sdy.tensor_mapping");
  out_ += "<(";
  list(field_of(a, "operand_mappings").elements, [&](AttrId e) { record_body(module_.attr(e), mapping); });
  out_ += ")->(";
  list(field_of(a, "result_mappings").elements, [&](AttrId e) { record_body(module_.attr(e), mapping); });
  out_ += ')';
  const std::vector<int64_t> sizes = integers_of(field_of(a, "factor_sizes"));
  for (size_t i = 0; i < sizes.size(); ++i) {
    out_ += i == 0 ? " {" : ", ";
    factor(int64_t(i));
    out_ += cat("=", sizes[i]);
  }
  if (!sizes.empty()) out_ += '}';
  for (std::string_view kind : {"reduction", "need_replication", "permutation", "blocked_propagation"}) {
    const std::vector<int64_t> list = integers_of(field_of(a, cat(kind, "_factors")));
    if (list.empty()) continue;
    out_ += cat(" ", kind, "={");
    this->list(list, [&](int64_t f) { factor(f); });
    out_ += '}';
  }
  out_ += field_of(a, "is_custom_rule").bits != 0 ? ", custom>" : ">";
}

void Printer::trailing_location(AttrId id) {
  if (!options_.locations) return;
  out_ += " loc(";
  if (id == AttrId::none) {
    out_ += "unknown";
  } else {
    location(module_.attr(id));
  }
  out_ += ')';
}

void Printer::location(const Attr& a) {
  if (full()) return;
  if (a.name == "loc.unknown") {
    out_ += "unknown";
  } else if (a.name == "loc.call") {
    out_ += "callsite(";
    location(field_of(a, "callee"));
    out_ += " at ";
    location(field_of(a, "caller"));
    out_ += ')';
  } else if (a.name == "loc.name") {
    quoted(field_of(a, "name").text);
    if (field_of(a, "child").name == "loc.unknown") return;
    out_ += '(';
    location(field_of(a, "child"));
    out_ += ')';
  } else if (a.name == "loc.fused") {
    out_ += "fused";
    if (a.elements[1] != AttrId::none) {
      out_ += '<';
      attr(a.elements[1]);
      out_ += '>';
    }
    out_ += '[';
    list(field_of(a, "locations").elements, [&](AttrId e) { location(module_.attr(e)); });
    out_ += ']';
  } else {
    quoted(field_of(a, "file").text);
    out_ += cat(":", field_of(a, "line").bits, ":", field_of(a, "column").bits);
    if (a.name == "loc.range") out_ += cat(" to ", field_of(a, "end_line").bits, ":", field_of(a, "end_column").bits);
  }
}

}  // namespace trine::front::stablehlo
