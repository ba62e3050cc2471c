// The .npy format, versions 1 to 3: magic, version, header length, a Python dict literal, the bytes.
#include "base/format/npy.h"

#include <charconv>
#include <cstring>

#include "base/text.h"

namespace trine {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct NpyKind {
  Dtype dtype;
  std::string_view descr;
};
// What NumPy itself knows; everything else is |V<bytes>.
constexpr NpyKind kKinds[] = {
    {Dtype::f32, "<f4"}, {Dtype::f16, "<f2"}, {Dtype::boolean, "|b1"}, {Dtype::s8, "|i1"},
    {Dtype::u8, "|u1"},  {Dtype::s16, "<i2"}, {Dtype::u16, "<u2"},     {Dtype::s32, "<i4"},
    {Dtype::u32, "<u4"}, {Dtype::s64, "<i8"}, {Dtype::u64, "<u8"},
};

std::string descr_of(Dtype d) {
  for (const auto& k : kKinds)
    if (k.dtype == d) return std::string(k.descr);
  return cat("|V", bytes(d));
}

// The value after 'key': in the header's dict, up to the comma or brace that ends it.
std::string_view value_of(std::string_view dict, std::string_view key) {
  const size_t at = dict.find(cat("'", key, "'"));
  if (at == std::string_view::npos) return {};
  const size_t colon = dict.find(':', at);
  if (colon == std::string_view::npos) return {};
  std::string_view rest = trim(dict.substr(colon + 1));
  if (rest.starts_with('(')) return rest.substr(0, rest.find(')') == std::string_view::npos ? 0 : rest.find(')') + 1);
  return trim(rest.substr(0, rest.find_first_of(",}")));
}

Result<std::vector<int64_t>> parse_shape(std::string_view text, std::string_view name) {
  std::vector<int64_t> shape;
  if (text.size() < 2) return fail(Code::invalid, "the header has no shape", std::string(name));
  int64_t elements = 1;
  for (auto part : split(text.substr(1, text.size() - 2), ',')) {
    part = trim(part);
    if (part.empty()) continue;
    int64_t n = 0;
    const auto [end, ec] = std::from_chars(part.data(), part.data() + part.size(), n);
    if (ec != std::errc{} || end != part.data() + part.size() || n < 0 ||
        __builtin_mul_overflow(elements, n, &elements))
      return fail(Code::invalid, cat("the header's shape is ", text, "; expected non-negative integers"),
                  std::string(name));
    shape.push_back(n);
  }
  return shape;
}

}  // namespace

std::string shape_text(std::span<const int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += cat(i ? "," : "", shape[i]);
  return out + "]";
}

Result<Array> parse_npy(std::string_view file, Dtype expected, std::string_view name) {
  const std::string where(name);
  if (!file.starts_with(kMagic) || file.size() < 10) return fail(Code::invalid, "not a .npy file", where);
  const bool wide = file[6] > 1;  // version 1 has a 16-bit header length
  const size_t prefix = wide ? 12 : 10;
  if (file.size() < prefix) return fail(Code::invalid, "the .npy header is cut off", where);
  uint32_t length = 0;
  std::memcpy(&length, file.data() + 8, wide ? 4 : 2);
  if (length > file.size() - prefix) return fail(Code::invalid, "the .npy header is cut off", where);
  const std::string_view dict = file.substr(prefix, length);
  if (value_of(dict, "fortran_order") == "True")
    return fail(Code::unsupported, "the array is in Fortran order; save it with np.ascontiguousarray", where);
  std::string_view descr = value_of(dict, "descr");
  if (descr.size() >= 2) descr = descr.substr(1, descr.size() - 2);
  const std::string wanted = descr_of(expected);
  const bool raw = descr.size() > 2 && descr[1] == 'V' && descr.substr(2) == cat(bytes(expected));
  if (descr != wanted && !raw)
    return fail(Code::invalid, cat("the array's dtype is ", descr, "; expected ", wanted, " for ", row(expected).name),
                where);
  Array a;
  a.dtype = expected;
  a.shape = TRY(parse_shape(value_of(dict, "shape"), name));
  int64_t elements = 1;
  for (int64_t d : a.shape) elements *= d;
  const std::string_view data = file.substr(prefix + length);
  if (elements > static_cast<int64_t>(data.size()) || bytes(expected, static_cast<size_t>(elements)) != data.size())
    return fail(Code::invalid,
                cat("shape ", shape_text(a.shape), " of ", row(expected).name, " does not fit the ", data.size(),
                    " bytes that follow"),
                where);
  const auto* first = reinterpret_cast<const std::byte*>(data.data());
  a.bytes.assign(first, first + data.size());
  return a;
}

std::string npy_text(Dtype dtype, std::span<const int64_t> shape, std::span<const std::byte> data) {
  std::string dims;
  for (int64_t d : shape) dims += cat(d, ", ");
  if (shape.size() > 1) dims.resize(dims.size() - 2);
  std::string dict = cat("{'descr': '", descr_of(dtype), "', 'fortran_order': False, 'shape': (", dims, "), }");
  const size_t unpadded = 10 + dict.size() + 1;
  dict.append((64 - unpadded % 64) % 64, ' ');
  dict += '\n';
  std::string out(kMagic);
  out += std::string("\x01\x00", 2);
  out += static_cast<char>(dict.size() & 0xff);
  out += static_cast<char>(dict.size() >> 8);
  out += dict;
  out.append(reinterpret_cast<const char*>(data.data()), data.size());
  return out;
}

}  // namespace trine
