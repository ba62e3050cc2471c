// Attributes as plain values. Dimension numbers are spread over the op under shorter names.
#include "base/text.h"
#include "front/stablehlo/graph/maker.h"
#include "front/stablehlo/print/print.h"
#include "front/stablehlo/records.h"

namespace trine::front::stablehlo {

namespace {

struct Renamed {
  std::string_view from, to;
};
constexpr Renamed kRenamed[] = {
    {"comparison_direction", "direction"}, {"precision_config", "precision"}, {"rng_distribution", "distribution"}};

Result<void> put(const Module& module, ir::Attrs& out, std::string_view name, AttrId id);

// "lhs_contracting_dimensions" -> "lhs_contract", "input_batch_dimension" -> "input_batch".
std::string short_name(std::string_view field) {
  for (std::string_view end : {"_dimensions", "_dimension"})
    if (field.ends_with(end)) {
      field.remove_suffix(end.size());
      break;
    }
  for (std::string_view end : {"batching", "contracting"})
    if (field.ends_with(end)) field.remove_suffix(3);
  return std::string(field);
}

// The name JAX gives the algorithm: "BF16_BF16_F32_X3".
std::string algorithm_name(const Module& module, const Attr& a) {
  std::string out;
  for (std::string_view field : {"lhs_precision_type", "rhs_precision_type", "accumulation_type"}) {
    std::string type = type_text(module, module.field(a, field)->type);
    if (type.starts_with("f8")) type = "ANY_F8";
    for (char& c : type) c = char(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    append_text(out, cat(out.empty() ? "" : "_", type));
  }
  const auto steps = int64_t(module.field(a, "num_primitive_operations")->bits);
  if (steps > 1) append_text(out, cat("_X", steps));
  if (module.field(a, "allow_imprecise_accumulation")->bits != 0) out += "_FAST_ACCUM";
  return out;
}

Result<void> put_record(const Module& module, ir::Attrs& out, const Attr& a) {
  if (a.name == "stablehlo.channel_handle") {
    out.set("channel_id", int64_t(module.field(a, "handle")->bits));
    return {};
  }
  if (a.name == "stablehlo.dot_algorithm") {
    out.set("algorithm", algorithm_name(module, a));
    return {};
  }
  const RecordRow& row = *record_by_name(a.name);
  for (size_t i = 0; i < row.fields.size(); ++i)
    if (a.elements[i] != AttrId::none) TRY(put(module, out, short_name(row.fields[i].name), a.elements[i]));
  return {};
}

Result<void> put_array(const Module& module, ir::Attrs& out, std::string_view name, const Attr& a) {
  ir::Strings texts;
  for (AttrId id : a.elements) {
    const Attr& e = module.attr(id);
    const bool is_text = e.kind == AttrKind::enumeration || e.kind == AttrKind::string || e.kind == AttrKind::symbol;
    texts.push_back(is_text ? std::string(e.text) : attr_text(module, id));
  }
  out.set(name, std::move(texts));
  return {};
}

Result<void> put(const Module& module, ir::Attrs& out, std::string_view name, AttrId id) {
  const Attr& a = module.attr(id);
  switch (a.kind) {
    case AttrKind::unit:
      out.set(name, true);
      return {};
    case AttrKind::boolean:
      out.set(name, a.bits != 0);
      return {};
    case AttrKind::integer:
      out.set(name, int64_t(a.bits));
      return {};
    case AttrKind::floating:
      out.set(name, float_value(module.type(a.type).scalar, a.bits));
      return {};
    case AttrKind::string:
    case AttrKind::symbol:
    case AttrKind::enumeration:
      out.set(name, std::string(a.text));
      return {};
    case AttrKind::packed:
      out.set(name, TRY(module.integers(a)));
      return {};
    case AttrKind::dense:
      if (name == "replica_groups") {
        const std::vector<int64_t>& shape = module.type(a.type).shape;
        out.set("group_size", shape.empty() ? int64_t{0} : shape.back());
      }
      out.set(name, TRY(module.integers(a)));
      return {};
    case AttrKind::array:
      return put_array(module, out, name, a);
    case AttrKind::record:
      return put_record(module, out, a);
    case AttrKind::type:
    case AttrKind::dictionary:
    case AttrKind::opaque:
      out.set(name, attr_text(module, id));
      return {};
  }
  return {};
}

}  // namespace

Result<ir::Attrs> graph_attrs(const Module& module, const Op& op) {
  ir::Attrs out;
  for (const NamedAttr& a : op.attrs) {
    if (a.name == "result_accuracy" || a.name.find('.') != std::string_view::npos) continue;
    std::string_view name = a.name;
    for (const Renamed& r : kRenamed)
      if (r.from == name) name = r.to;
    const auto done = put(module, out, name, a.value);
    if (!done) return fail(done.error().code, cat("attribute ", a.name, ": ", done.error().message));
  }
  return out;
}

}  // namespace trine::front::stablehlo
