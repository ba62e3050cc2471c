// Splats are found by comparing the bytes with themselves one element on, so that the first difference ends the search.
#include "front/stablehlo/dense.h"

#include "base/number/scalar.h"
#include "base/text.h"

namespace trine::front::stablehlo {

namespace {

struct Layout {
  uint64_t elements = 0, width = 0;  // bytes of one element
  Scalar scalar = Scalar::count;     // of one part
};

Result<Layout> layout_of(const Module& module, TypeId id) {
  const Type& tensor = module.type(id);
  if (tensor.kind != TypeKind::tensor) return fail(Code::invalid, "a dense constant whose type is not a ranked tensor");
  const int64_t n = module.elements(tensor);
  if (n < 0) return fail(Code::invalid, "a dense constant whose type has no fixed size");
  const Type& element = module.type(tensor.element);
  const Type& part = element.kind == TypeKind::complex ? module.type(element.element) : element;
  if (part.kind != TypeKind::scalar) return fail(Code::unsupported, "a dense constant of neither numbers nor booleans");
  return Layout{uint64_t(n), uint64_t(module.element_bytes(tensor.element)), part.scalar};
}

// Bits past an element's width mean nothing, and a boolean is 0 or 1: equal constants must have equal bytes.
std::string_view canonical_bits(Module& module, std::string_view data, Scalar scalar) {
  const int used = row(scalar).bits % 8;
  if (used == 0) return data;
  const size_t width = size_t(bytes(scalar));
  const auto mask = uint8_t((1 << used) - 1);
  auto fixed = [&](uint8_t b) { return scalar == Scalar::i1 ? uint8_t(b != 0) : uint8_t(b & mask); };
  bool clean = true;
  for (size_t i = width - 1; i < data.size() && clean; i += width) clean = fixed(uint8_t(data[i])) == uint8_t(data[i]);
  if (clean) return data;
  std::string copy(data);
  for (size_t i = width - 1; i < copy.size(); i += width) copy[i] = char(fixed(uint8_t(copy[i])));
  return module.keep(std::move(copy));
}

}  // namespace

Result<AttrId> make_dense(Module& module, TypeId tensor, std::string_view data) {
  const Layout layout = TRY(layout_of(module, tensor));
  const bool one = data.size() == layout.width;
  const bool all = layout.elements <= data.size() && data.size() == layout.elements * layout.width;
  if (!one && !all)
    return fail(Code::invalid, cat("a dense constant of ", layout.elements, " elements of ", layout.width,
                                   " bytes has ", data.size(), " bytes"));
  if (layout.elements == 0) data = {};  // MLIR writes the value that no element has
  data = canonical_bits(module, data, layout.scalar);
  const size_t width = layout.width;
  if (is_splat(std::as_bytes(std::span(data)), width)) data = data.substr(0, width);
  return module.intern(Attr{.kind = AttrKind::dense, .type = tensor, .text = data});
}

Result<AttrId> make_dense_from_blob(Module& module, TypeId tensor, std::string_view blob) {
  const Layout layout = TRY(layout_of(module, tensor));
  const Type& element = module.type(module.type(tensor).element);
  const bool packed = blob.size() == (layout.elements + 7) / 8 && blob.size() != layout.elements;
  if (element.kind != TypeKind::scalar || layout.scalar != Scalar::i1 || blob == "\xFF" || !packed)
    return make_dense(module, tensor, blob);
  std::string unpacked(layout.elements, '\0');
  for (size_t i = 0; i < unpacked.size(); ++i) unpacked[i] = char(uint8_t(blob[i / 8]) >> (i % 8) & 1);
  return make_dense(module, tensor, module.keep(std::move(unpacked)));
}

}  // namespace trine::front::stablehlo
