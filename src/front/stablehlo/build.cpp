// See build.h; integers are kept sign-extended, floats as bits of their own format.
#include "front/stablehlo/build.h"

#include <algorithm>

#include "base/text.h"

namespace trine::front::stablehlo {

namespace {

uint64_t low_bits(uint64_t value, int bits) { return bits >= 64 ? value : value & ((uint64_t{1} << bits) - 1); }

Result<AttrId> make_packed(Module& module, Scalar scalar, std::string bytes) {
  const TypeId element = TRY(make_scalar(module, scalar));
  return module.intern(Attr{.kind = AttrKind::packed, .type = element, .text = module.keep(std::move(bytes))});
}

}  // namespace

Result<TypeId> make_scalar(Module& module, Scalar scalar) {
  return module.intern(Type{.kind = TypeKind::scalar, .scalar = scalar});
}

Result<AttrId> make_boolean(Module& module, bool value) {
  return module.intern(Attr{.kind = AttrKind::boolean, .bits = value});
}

Result<AttrId> make_integer(Module& module, Scalar scalar, int64_t value) {
  const ScalarRow& r = row(scalar);
  uint64_t bits = low_bits(uint64_t(value), r.bits);
  if (scalar == Scalar::i1) return make_boolean(module, bits != 0);
  if (r.kind == ScalarKind::signed_integer) bits = uint64_t(int64_t(bits << (64 - r.bits)) >> (64 - r.bits));
  const TypeId type = TRY(make_scalar(module, scalar));
  return module.intern(Attr{.kind = AttrKind::integer, .type = type, .bits = bits});
}

Result<AttrId> make_float(Module& module, Scalar scalar, uint64_t bits) {
  const TypeId type = TRY(make_scalar(module, scalar));
  return module.intern(Attr{.kind = AttrKind::floating, .type = type, .bits = low_bits(bits, row(scalar).bits)});
}

Result<AttrId> make_string(Module& module, std::string_view text) {
  return module.intern(Attr{.kind = AttrKind::string, .text = text});
}

Result<AttrId> make_symbol(Module& module, std::string_view text) {
  return module.intern(Attr{.kind = AttrKind::symbol, .text = text});
}

Result<AttrId> make_type(Module& module, TypeId type) {
  return module.intern(Attr{.kind = AttrKind::type, .type = type});
}

Result<AttrId> make_array(Module& module, std::vector<AttrId> elements) {
  return module.intern(Attr{.kind = AttrKind::array, .elements = std::move(elements)});
}

Result<AttrId> make_integers(Module& module, std::span<const int64_t> values) {
  return make_packed(module, Scalar::i64, std::string(reinterpret_cast<const char*>(values.data()), values.size() * 8));
}

Result<AttrId> make_booleans(Module& module, std::span<const int64_t> values) {
  std::string bytes;
  for (int64_t v : values) bytes += char(v != 0);
  return make_packed(module, Scalar::i1, std::move(bytes));
}

Result<void> sort_attrs(std::vector<NamedAttr>& attrs) {
  std::sort(attrs.begin(), attrs.end(), [](const NamedAttr& a, const NamedAttr& b) { return a.name < b.name; });
  for (size_t i = 1; i < attrs.size(); ++i)
    if (attrs[i].name == attrs[i - 1].name) return fail(Code::invalid, cat("two attributes named ", attrs[i].name));
  return {};
}

Result<AttrId> make_dictionary(Module& module, std::vector<NamedAttr> attrs) {
  TRY(sort_attrs(attrs));
  Attr dictionary{.kind = AttrKind::dictionary};
  for (const NamedAttr& a : attrs) {
    dictionary.keys.push_back(a.name);
    dictionary.elements.push_back(a.value);
  }
  return module.intern(std::move(dictionary));
}

}  // namespace trine::front::stablehlo
