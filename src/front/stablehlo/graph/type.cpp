// Types, constants and locations of a module in the graph's terms.
#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "front/stablehlo/graph/maker.h"
#include "front/stablehlo/print/print.h"

namespace trine::front::stablehlo {

namespace {

constexpr int64_t kBytesMax = int64_t{1} << 46;  // of one tensor, as ir's verifier has it

std::optional<Dtype> dtype_of(const Module& module, TypeId id) {
  const Type& t = module.type(id);
  if (t.kind != TypeKind::scalar && t.kind != TypeKind::complex) return std::nullopt;
  if (t.kind == TypeKind::scalar && t.scalar == Scalar::tf32) return std::nullopt;
  const std::string name = type_text(module, id);
  for (const DtypeRow& r : kDtypes)
    if (r.abroad.stablehlo == name) return r.dtype;
  return std::nullopt;
}

}  // namespace

Result<ir::Type> graph_type(const Module& module, TypeId id) {
  const Type& t = module.type(id);
  if (t.kind == TypeKind::token) return ir::token_type();
  if (t.kind != TypeKind::tensor)
    return fail(Code::unsupported, cat("a value of type ", type_text(module, id), "; graphs hold tensors and tokens"));
  const auto dtype = dtype_of(module, t.element);
  if (!dtype) return fail(Code::unsupported, cat("elements of type ", type_text(module, t.element)));
  int64_t total = bytes(*dtype);
  for (int64_t d : t.shape) {
    if (d < 0) return fail(Code::unsupported, cat("a size that is not known, in ", type_text(module, id)));
    if (d > 0 && total > kBytesMax / d)
      return fail(Code::out_of_range, cat("a tensor of 2^46 bytes or more, ", type_text(module, id)));
    total *= std::max<int64_t>(d, 1);
  }
  return ir::tensor_type(*dtype, t.shape);
}

Result<Tensor> graph_tensor(const Module& module, const Attr& dense) {
  if (dense.kind != AttrKind::dense) return fail(Code::unsupported, "a constant that is not dense");
  const ir::Type type = TRY(graph_type(module, dense.type));
  const auto width = size_t(bytes(type.dtype));
  const bool splat = dense.text.size() == width && type.elements() > 1;
  Tensor out = Tensor::make(type.dtype, splat ? Dims{} : type.dims);
  if (out.bytes() != dense.text.size())
    return fail(Code::invalid, cat("a constant of ", dense.text.size(), " bytes for ", ir::text(type)));
  if (!dense.text.empty()) std::memcpy(out.data.get(), dense.text.data(), dense.text.size());
  // The module keeps the bits of narrow integers, the host their value.
  if (const DtypeRow& r = row(type.dtype); r.kind == DtypeKind::signed_int && r.bits < 8) {
    auto* p = reinterpret_cast<int8_t*>(out.data.get());
    const int unused = 8 - r.bits;
    for (size_t i = 0; i < out.bytes(); ++i) p[i] = int8_t(int8_t(uint8_t(p[i]) << unused) >> unused);
  }
  return out;
}

// The outermost name is the op's path; the innermost call is the user's own line.
// What a location is made of: its name, and the file it leads to.
static void follow(const Module& module, AttrId location, std::string_view& name, std::string& file) {
  while (location != AttrId::none && file.empty()) {
    const Attr& a = module.attr(location);
    const auto inner = [&](size_t i) { location = a.elements[i]; };
    if (a.name == "loc.name") {
      if (name.empty()) name = module.attr(a.elements[0]).text;
      inner(1);
    } else if (a.name == "loc.call") {
      inner(0);
    } else if (a.name == "loc.fused" && !module.attr(a.elements[0]).elements.empty()) {
      location = module.attr(a.elements[0]).elements[0];
    } else if (a.name == "loc.file" || a.name == "loc.range") {
      file = cat(module.attr(a.elements[0]).text, ":", int64_t(module.attr(a.elements[1]).bits));
    } else {
      break;
    }
  }
}

std::string_view location_name(const Module& module, AttrId location) {
  std::string_view name;
  std::string file;
  follow(module, location, name, file);
  return name;
}

std::string location_text(const Module& module, AttrId location, std::string_view around) {
  std::string_view name;
  std::string file;
  follow(module, location, name, file);
  const std::string path = name.empty() || around.empty() ? std::string(name) : cat(around, "/", name);
  if (file.empty()) return path;
  return path.empty() ? file : cat(file, " (", path, ")");
}

}  // namespace trine::front::stablehlo
