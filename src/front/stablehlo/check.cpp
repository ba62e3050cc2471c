// See check.h.
#include "front/stablehlo/check.h"

#include <cmath>

#include "base/text.h"
#include "front/stablehlo/build.h"

namespace trine::front::stablehlo {

namespace {

constexpr int64_t kFactorMax = 100000;

bool is_scalar(const Module& module, TypeId id, bool floating) {
  const Type& t = module.type(id);
  return t.kind == TypeKind::scalar && is_floating(t.scalar) == floating;
}

bool is_element(const Type& t) {
  return t.kind == TypeKind::scalar || t.kind == TypeKind::complex || t.kind == TypeKind::quantized ||
         t.kind == TypeKind::opaque;
}

Result<void> check_quantization(const Module& module, const Quantization& q) {
  const Type& storage = module.type(q.storage);
  const bool stores = storage.kind == TypeKind::scalar && row(storage.scalar).kind == ScalarKind::signed_integer;
  if (!stores || row(storage.scalar).bits > 32 || !is_scalar(module, q.expressed, true))
    return fail(Code::invalid, "a quantized type stores integers and expresses floats");
  if (q.scales.empty() || q.scales.size() != q.zero_points.size())
    return fail(Code::invalid,
                cat("a quantized type of ", q.scales.size(), " scales and ", q.zero_points.size(), " zero points"));
  for (double scale : q.scales)
    if (!std::isfinite(scale) || scale <= 0) return fail(Code::invalid, "a quantized type's scale is not above zero");
  if (q.min > q.max) return fail(Code::invalid, "a quantized type's smallest value is above its largest");
  return {};
}

// Whether an attribute is what a row calls `of`.
bool is(const Module& module, AttrId id, std::string_view of) {
  const Attr& a = module.attr(id);
  if (of.empty()) return true;
  if (of == "text") return a.kind == AttrKind::string;
  if (of == "loc") return a.kind == AttrKind::record && a.name.starts_with("loc.");
  if (of == "mesh") return a.kind == AttrKind::symbol ? a.elements.empty() : a.name == "sdy.mesh";
  return a.name == of;
}

bool fits(const Module& module, const Field& field, AttrId id) {
  if (id == AttrId::none) return field.kind == FieldKind::optional_integer || field.kind == FieldKind::optional_attr;
  const Attr& a = module.attr(id);
  switch (field.kind) {
    case FieldKind::integer:
    case FieldKind::count:
    case FieldKind::optional_integer:
      return a.kind == AttrKind::integer;
    case FieldKind::integers:
      return a.kind == AttrKind::packed;
    case FieldKind::flag:
      return a.kind == AttrKind::boolean;
    case FieldKind::real:
      return a.kind == AttrKind::floating;
    case FieldKind::text:
      return a.kind == AttrKind::string;
    case FieldKind::type:
      return a.kind == AttrKind::type;
    case FieldKind::attr:
    case FieldKind::optional_attr:
      return is(module, id, field.of);
    case FieldKind::attrs:
      if (a.kind != AttrKind::array) return false;
      for (AttrId element : a.elements)
        if (!is(module, element, field.of)) return false;
      return true;
  }
  return false;
}

// Of Shardy's records, what its text cannot say otherwise.
Result<void> check_sdy(const Module& module, const RecordRow& row, const Attr& record) {
  for (size_t i = 0; i < row.fields.size(); ++i) {
    const std::string_view name = row.fields[i].name;
    if (!name.starts_with("factor_") && !name.ends_with("_factors")) continue;
    const std::vector<int64_t> factors = TRY(module.integers(module.attr(record.elements[i])));
    for (int64_t f : name == "factor_sizes" ? std::vector<int64_t>{} : factors)
      if (f < 0 || f > kFactorMax) return fail(Code::invalid, cat("factor ", f, " of a sharding rule"));
    if (factors.empty() && row.name == "sdy.dim_mapping") return fail(Code::invalid, "a dimension mapped to no factor");
  }
  if (row.name != "sdy.sharding") return {};
  const uint64_t reduction = module.attr(record.elements[4]).bits;
  if (reduction > 2 || (reduction > 0 && module.attr(record.elements[3]).elements.empty()))
    return fail(Code::invalid, cat("a sharding of reduction ", reduction));
  return {};
}

}  // namespace

Result<void> check_type(const Module& module, const Type& type) {
  for (int64_t d : type.shape)
    if (d < 0 && d != kDynamic) return fail(Code::invalid, cat("a dimension of ", d));
  switch (type.kind) {
    case TypeKind::complex:
      if (!is_scalar(module, type.element, true)) return fail(Code::invalid, "a complex type of other than floats");
      return {};
    case TypeKind::tensor:
    case TypeKind::unranked_tensor:
    case TypeKind::buffer:
      if (!is_element(module.type(type.element))) return fail(Code::invalid, "a tensor of other than numbers");
      return {};
    case TypeKind::quantized:
      return check_quantization(module, *type.quantization);
    default:
      return {};
  }
}

Result<AttrId> make_record(Module& module, const RecordRow& row, std::vector<AttrId> fields) {
  Attr record{.kind = AttrKind::record, .name = row.name, .elements = std::move(fields)};
  if (record.elements.size() != row.fields.size())
    return fail(Code::invalid, cat(row.name, " of ", record.elements.size(), " fields, expected ", row.fields.size()));
  for (size_t i = 0; i < row.fields.size(); ++i)
    if (!fits(module, row.fields[i], record.elements[i]))
      return fail(Code::invalid, cat("field ", row.fields[i].name, " of ", row.name, " is of another kind"));
  if (row.name.starts_with("sdy.")) TRY(check_sdy(module, row, record));
  return module.intern(std::move(record));
}

bool is_packable(const Type& type) {
  if (type.kind != TypeKind::scalar) return false;
  for (Scalar s : {Scalar::i1, Scalar::i8, Scalar::i16, Scalar::i32, Scalar::i64, Scalar::f32, Scalar::f64})
    if (s == type.scalar) return true;
  return false;
}

Result<AttrId> default_field(Module& module, FieldKind kind) {
  switch (kind) {
    case FieldKind::integer:
    case FieldKind::count:
      return make_integer(module, Scalar::i64, 0);
    case FieldKind::integers:
      return make_integers(module, {});
    case FieldKind::flag:
      return make_boolean(module, false);
    case FieldKind::real:
      return make_float(module, Scalar::f64, 0);
    case FieldKind::attrs:
      return make_array(module, {});
    case FieldKind::optional_integer:
    case FieldKind::optional_attr:
      return AttrId::none;
    case FieldKind::text:
    case FieldKind::type:
    case FieldKind::attr:
      break;
  }
  return fail(Code::invalid, "a field that has no default is missing");
}

}  // namespace trine::front::stablehlo
