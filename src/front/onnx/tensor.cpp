// Elements of tensors, from raw bytes, lists of numbers, or a file. Sub-byte elements are packed there, not here.
#include "front/onnx/tensor.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "ir/type.h"

namespace trine::front::onnx {

namespace {

constexpr int64_t kDenseMax = int64_t{1} << 30;  // bytes of a sparse tensor made dense

constexpr int64_t kText = 8;

int bits_of(Dtype dtype) { return kDtypes[size_t(dtype)].bits; }

// Sub-byte elements: the lowest bits first, each as a byte of its own, signed ones sign-extended.
void unpack(std::string_view raw, const TensorView& to) {
  const int bits = bits_of(to.dtype);
  const bool is_signed = kDtypes[size_t(to.dtype)].kind == DtypeKind::signed_int;
  auto* out = to.as<uint8_t>();
  for (int64_t i = 0; i < to.elements(); ++i) {
    const auto first = size_t(i * bits / 8);  // an element may end in the next byte
    const int low = uint8_t(raw[first]), high = first + 1 < raw.size() ? uint8_t(raw[first + 1]) : 0;
    const auto value = uint8_t(((high << 8 | low) >> (i * bits % 8)) & ((1 << bits) - 1));
    out[i] = is_signed ? uint8_t(int8_t(value << (8 - bits)) >> (8 - bits)) : value;
  }
}

Result<void> from_raw(std::string_view raw, const TensorView& to) {
  const int bits = bits_of(to.dtype);
  const size_t expected = bits < 8 ? (size_t(to.elements()) * size_t(bits) + 7) / 8 : to.bytes();
  if (raw.size() != expected)
    return fail(Code::invalid, cat("found ", raw.size(), " bytes; ", shape_text(to.dtype, to.dims), " has ", expected));
  if (bits < 8) {
    unpack(raw, to);
  } else if (to.dtype == Dtype::boolean) {
    for (size_t i = 0; i < raw.size(); ++i) to.as<uint8_t>()[i] = raw[i] != 0;
  } else if (!raw.empty()) {
    std::memcpy(to.data, raw.data(), raw.size());
  }
  return {};
}

// A list of 32- or 64-bit numbers: each the bits of an element, or a byte of those that fill bytes together.
Result<void> from_numbers(const std::vector<uint64_t>& numbers, const TensorView& to) {
  const int bits = bits_of(to.dtype);
  const bool in_other_lists =
      to.dtype == Dtype::f32 || to.dtype == Dtype::f64 || to.dtype == Dtype::c64 || to.dtype == Dtype::c128;
  if (!numbers.empty() && in_other_lists)
    return fail(Code::invalid,
                cat("whole numbers for ", shape_text(to.dtype, to.dims), ", expected float_data or double_data"));
  if (8 % bits != 0 && bits < 8) {
    if (int64_t(numbers.size()) != to.elements())
      return fail(Code::invalid, cat("found ", numbers.size(), " numbers for ", shape_text(to.dtype, to.dims)));
    for (size_t i = 0; i < numbers.size(); ++i) to.as<uint8_t>()[i] = uint8_t(numbers[i] & ((1U << bits) - 1));
    return {};
  }
  std::string raw;
  const size_t width = bits < 8 ? 1 : size_t(bytes(to.dtype));
  raw.reserve(numbers.size() * width);
  for (uint64_t n : numbers) raw.append(reinterpret_cast<const char*>(&n), width);
  return from_raw(raw, to);
}

template <class T>
std::string_view bytes_of(const std::vector<T>& list) {
  return {reinterpret_cast<const char*>(list.data()), list.size() * sizeof(T)};
}

Result<int64_t> external_number(const TensorProto& proto, std::string_view key, int64_t otherwise) {
  for (const auto& [name, text] : proto.external) {
    if (name != key) continue;
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 0)
      return fail(Code::invalid, cat("external data with ", key, " `", text, "`; expected a number"));
    return value;
  }
  return otherwise;
}

// Only files in the model's folder or below it.
Result<std::string> read_external(const TensorProto& proto, const std::string& model) {
  std::string location;
  for (const auto& [name, text] : proto.external)
    if (name == "location") location = text;
  if (model.empty())
    return fail(Code::unsupported, cat("external data in `", location, "`, but the model was not read from a file"));
  const auto file = OpenFile::open_beneath(std::filesystem::path(model).parent_path().string(), location, model);
  if (!file) return fail(file.error().code, cat("external data: ", file.error().message));
  const int64_t offset = TRY(external_number(proto, "offset", 0));
  const int64_t length = TRY(external_number(proto, "length", file->size() - std::min(file->size(), offset)));
  return file->read(offset, length);
}

Result<void> fill(const TensorProto& proto, std::string_view file, const TensorView& to) {
  if (proto.is_external) return from_raw(file, to);
  if (!proto.raw.empty()) return from_raw(proto.raw, to);
  if (!proto.floats.empty()) {
    if (to.dtype != Dtype::f32 && to.dtype != Dtype::c64) return fail(Code::invalid, "float_data of another type");
    return from_raw(bytes_of(proto.floats), to);
  }
  if (!proto.doubles.empty()) {
    if (to.dtype != Dtype::f64 && to.dtype != Dtype::c128) return fail(Code::invalid, "double_data of another type");
    return from_raw(bytes_of(proto.doubles), to);
  }
  return from_numbers(proto.numbers, to);
}

// What the file holds at least, so that a claimed shape cannot ask for memory the file does not back.
size_t held_bytes(const TensorProto& proto) {
  return proto.raw.size() + 4 * proto.floats.size() + 8 * proto.doubles.size() + 8 * proto.numbers.size();
}

}  // namespace

Result<Dtype> dtype_of(int64_t type) {
  if (type == kText) return fail(Code::unsupported, "tensors of strings");
  int last = 0;
  for (const DtypeRow& r : kDtypes) {
    if (type > 0 && r.abroad.codes.onnx == type) return r.dtype;
    last = std::max(last, r.abroad.codes.onnx);
  }
  return fail(Code::unsupported, cat("element type ", type, "; this build knows 1 to ", last));
}

int64_t type_of(Dtype dtype) { return dtype == Dtype::count ? 0 : row(dtype).abroad.codes.onnx; }

Result<Tensor> make_tensor(const TensorProto& proto, const std::string& model) {
  const auto in = [&](Error e) { return fail(e.code, cat("tensor `", proto.name, "`: ", e.message)); };
  const auto dtype = dtype_of(proto.type);
  if (!dtype) return in(dtype.error());
  const ir::Type type = ir::tensor_type(*dtype, proto.dims);
  if (!ir::is_countable(type)) return in(fail(Code::out_of_range, cat("a size of ", ir::text(type))));
  auto file = proto.is_external ? read_external(proto, model) : Result<std::string>(std::string());
  if (!file) return in(file.error());
  const size_t held = held_bytes(proto) + file->size();
  if (size_t(type.elements()) > 8 * held)
    return in(fail(Code::invalid, cat("found ", held, " bytes for ", ir::text(type))));
  Tensor out = Tensor::make(*dtype, proto.dims);
  if (auto filled = fill(proto, *file, out.view()); !filled) return in(filled.error());
  return out;
}

// Indices are offsets into the flattened tensor, or a row of coordinates per value.
Result<Tensor> make_dense(const SparseProto& proto, const std::string& model) {
  const Tensor values = TRY(make_tensor(proto.values, model)), indices = TRY(make_tensor(proto.indices, model));
  const ir::Type type = ir::tensor_type(values.dtype, proto.dims);
  if (!ir::is_countable(type) || type.elements() > kDenseMax / bytes(values.dtype))
    return fail(Code::out_of_range, cat("a sparse tensor of ", ir::text(type)));
  const bool rows = indices.dims.size() == 2;
  const size_t rank = proto.dims.size();
  if (indices.dtype != Dtype::s64 || values.dims.size() != 1 || indices.dims.empty() || indices.dims.size() > 2 ||
      indices.dims[0] != values.dims[0] || (rows && indices.dims[1] != int64_t(rank)))
    return fail(Code::invalid, cat("a sparse tensor of values ", shape_text(values.dtype, values.dims), " at ",
                                   shape_text(indices.dtype, indices.dims)));
  Tensor out = Tensor::make(values.dtype, proto.dims);
  const Dims strides = row_major_strides(proto.dims);
  const size_t size = size_t(bytes(values.dtype));
  const auto* at = indices.view().as<int64_t>();
  for (int64_t i = 0; i < values.dims[0]; ++i) {
    int64_t offset = rows ? 0 : at[i];
    for (size_t d = 0; rows && d < rank; ++d) {
      const int64_t k = at[size_t(i) * rank + d];
      if (k < 0 || k >= proto.dims[d]) return fail(Code::invalid, cat("a sparse value at ", k, " of dim ", d));
      offset += k * strides[d];
    }
    if (offset < 0 || offset >= type.elements()) return fail(Code::invalid, cat("a sparse value at ", offset));
    std::memcpy(out.data.get() + size_t(offset) * size, values.data.get() + size_t(i) * size, size);
  }
  return out;
}

}  // namespace trine::front::onnx
