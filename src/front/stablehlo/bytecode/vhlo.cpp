// The conversions of StableHLO's VhloLegalizeToStablehlo.cpp: VHLO has no defaults, no nested dimension numbers and
// no symbols, so its ops spell out what StableHLO's leave out.
#include "front/stablehlo/bytecode/vhlo.h"

#include <algorithm>

#include "base/text.h"
#include "front/stablehlo/build.h"
#include "front/stablehlo/check.h"
#include "front/stablehlo/records.h"

namespace trine::front::stablehlo {

namespace {

// Takes the named attribute out of the list.
AttrId take(std::vector<NamedAttr>& attrs, std::string_view name) {
  const auto found = std::find_if(attrs.begin(), attrs.end(), [&](const NamedAttr& a) { return a.name == name; });
  if (found == attrs.end()) return AttrId::none;
  const AttrId value = found->value;
  attrs.erase(found);
  return value;
}

bool is_empty(const Attr& a) {
  switch (a.kind) {
    case AttrKind::array:
    case AttrKind::dictionary:
      return a.elements.empty();
    case AttrKind::string:
    case AttrKind::dense:
      return a.text.empty();
    default:
      return false;
  }
}

bool is_splat(const Module& module, const Attr& a, int64_t value) {
  if (a.kind == AttrKind::integer) return int64_t(a.bits) == value;
  if (a.kind == AttrKind::boolean) return int64_t(a.bits) == value;
  if (a.kind != AttrKind::dense || a.text.empty()) return false;
  const int width = module.element_bytes(module.type(a.type).element);
  if (int64_t(a.text.size()) != width || width > 8) return false;
  uint64_t bits = 0;
  std::copy(a.text.begin(), a.text.end(), reinterpret_cast<char*>(&bits));
  return bits == (uint64_t(value) & (~uint64_t{0} >> (64 - 8 * width)));
}

bool is_default_accuracy(const Module& module, const Attr& a) {
  if (a.name != "stablehlo.result_accuracy") return false;
  for (std::string_view number : {"atol", "rtol", "ulps"})
    if ((module.field(a, number)->bits << (number == "ulps" ? 0 : 1)) != 0) return false;  // -0 is zero too
  return module.field(a, "mode")->text == "DEFAULT";
}

// Whether StableHLO leaves this value out.
bool is_absent(const Module& module, std::string_view absent, AttrId id) {
  const Attr& a = module.attr(id);
  if (absent.empty()) return false;
  if (absent == "empty") return is_empty(a);
  if (absent == "default") return is_default_accuracy(module, a);
  if (absent == "false") return is_splat(module, a, 0);
  if (absent == "0" || absent == "1") return is_splat(module, a, absent == "1");
  if (absent == "-1") return is_splat(module, a, -1);
  if (a.kind == AttrKind::enumeration) return a.text == absent;
  if (a.kind != AttrKind::array) return false;
  return std::all_of(a.elements.begin(), a.elements.end(), [&](AttrId e) {
    return module.attr(e).kind == AttrKind::enumeration && module.attr(e).text == absent;
  });
}

Error unexpected(std::string_view name, std::string_view wanted) {
  return fail(Code::invalid, cat("attribute ", name, " is not ", wanted));
}

Result<AttrId> to_symbol(Module& module, std::string_view name, AttrId id) {
  const Attr& a = module.attr(id);
  if (a.kind != AttrKind::string) return unexpected(name, "a string");
  return make_symbol(module, a.text);
}

Result<AttrId> to_field(Module& module, const Field& field, AttrId id) {
  const Attr& a = module.attr(id);
  if (field.kind == FieldKind::integers) return make_integers(module, TRY(module.integers(a)));
  if (field.kind == FieldKind::integer) {
    if (a.kind != AttrKind::integer) return unexpected(field.name, "an integer");
    return make_integer(module, Scalar::i64, int64_t(a.bits));
  }
  return id;
}

bool is_none_type(const Module& module, AttrId id) {
  const Attr& a = module.attr(id);
  return a.kind == AttrKind::type && module.type(a.type).kind == TypeKind::none;
}

// A record from the op's attributes of its fields' names. A dot algorithm of none types only is no algorithm.
Result<AttrId> gather_record(Module& module, const AttrRow& row, std::vector<NamedAttr>& attrs) {
  const RecordRow* record = record_by_name(cat("stablehlo.", row.record));
  CHECK(record != nullptr, "an op's row names a record that has no row");
  std::vector<AttrId> out;
  size_t none = 0;
  for (const Field& field : record->fields) {
    const bool channel = row.record == "channel_handle";
    const std::string name = channel ? field.name == "handle" ? "channel_id" : "channel_type" : std::string(field.name);
    const AttrId id = take(attrs, name);
    if (id == AttrId::none) return fail(Code::invalid, cat("attribute ", name, " is missing"));
    const bool is_none = is_none_type(module, id);
    none += is_none;
    out.push_back(is_none ? id : TRY(to_field(module, field, id)));
  }
  if (none == record->fields.size()) return AttrId::none;
  return make_record(module, *record, std::move(out));
}

Result<AttrId> to_channel(Module& module, AttrId id) {
  const Attr& a = module.attr(id);
  if (a.kind != AttrKind::integer) return unexpected("channel_id", "an integer");
  if (a.bits == 0) return AttrId::none;
  const AttrId handle = TRY(make_integer(module, Scalar::i64, int64_t(a.bits)));
  const AttrId type = TRY(make_integer(module, Scalar::i64, 0));
  return make_record(module, *record_by_name("stablehlo.channel_handle"), {handle, type});
}

Result<AttrId> convert(Module& module, const AttrRow& row, AttrId id) {
  switch (row.rule) {
    case Rule::same:
    case Rule::record:
      return id;
    case Rule::integers:
      return make_integers(module, TRY(module.integers(module.attr(id))));
    case Rule::booleans:
      return make_booleans(module, TRY(module.integers(module.attr(id))));
    case Rule::unit:
      if (module.attr(id).kind != AttrKind::boolean) return unexpected(row.name, "a boolean");
      if (module.attr(id).bits == 0) return AttrId::none;
      return module.intern(Attr{});
    case Rule::symbol:
      return to_symbol(module, row.name, id);
    case Rule::symbols: {
      if (module.attr(id).kind != AttrKind::array) return unexpected(row.name, "an array");
      std::vector<AttrId> symbols = module.attr(id).elements;
      for (AttrId& s : symbols) s = TRY(to_symbol(module, row.name, s));
      return make_array(module, std::move(symbols));
    }
    case Rule::channel:
      return to_channel(module, id);
  }
  return id;
}

}  // namespace

Result<void> convert_from_vhlo(Module& module, const OpInfo& op, std::vector<NamedAttr>& attrs) {
  auto value_of = [&](std::string_view name) {
    for (const NamedAttr& a : attrs)
      if (a.name == name) return a.value;
    return AttrId::none;
  };
  const AttrId operands = value_of("operand_layouts"), results = value_of("result_layouts");
  const bool no_layouts = operands != AttrId::none && results != AttrId::none && is_empty(module.attr(operands)) &&
                          is_empty(module.attr(results));
  std::vector<NamedAttr> out;
  for (const AttrRow& row : op.attrs) {
    if (row.native) continue;
    AttrId id = AttrId::none;
    if (row.rule == Rule::record) {
      if (row.since > 1 && value_of("lhs_component_count") == AttrId::none) continue;  // dot_general_v1
      id = TRY(gather_record(module, row, attrs));
    } else {
      id = take(attrs, row.rule == Rule::channel ? "channel_id" : row.name);
      if (id == AttrId::none) continue;
      if (row.absent == "both_empty" ? no_layouts : is_absent(module, row.absent, id)) continue;
      id = TRY(convert(module, row, id));
    }
    if (id != AttrId::none) out.push_back({row.name, id});
  }
  attrs.insert(attrs.end(), out.begin(), out.end());
  return {};
}

}  // namespace trine::front::stablehlo
