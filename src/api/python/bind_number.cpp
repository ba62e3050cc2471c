// Number formats for Python: the dtype table, bulk conversion and MX blocks over raw bytes.
// The caller (python/trine, the tests) views arrays as uint8; sizes are checked in C++ and errors become ValueError.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include "api/python/raise.h"
#include "base/number/convert.h"
#include "base/number/mx.h"
#include "base/number/random.h"
#include "base/text.h"

namespace nb = nanobind;
using namespace trine;
using trine::api::or_raise;

namespace {

using BytesIn = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using BytesOut = nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>;
using FloatsIn = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using FloatsOut = nb::ndarray<nb::numpy, float, nb::ndim<1>>;

template <class Array, class T>
Array owned(size_t n, T*& data) {
  data = new T[n ? n : 1]();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return Array(data, {n}, owner);
}

Dtype dtype_named(const std::string& name) {
  if (auto found = dtype_by_name(name); found && is_on_chip(*found)) return *found;
  std::vector<std::string> names;
  for (const DtypeRow& r : kChipDtypes) names.emplace_back(r.name);
  throw nb::value_error(cat("no dtype \"", name, "\"; near: ", join(nearest(name, names), ", ")).c_str());
}

Rounding rounding_named(const std::string& name, uint64_t seed, uint64_t index) {
  if (name == "nearest") return {RoundingMode::nearest_even, seed, index};
  if (name == "stochastic") return {RoundingMode::stochastic, seed, index};
  throw nb::value_error(cat("no rounding \"", name, "\"; nearest or stochastic").c_str());
}

BytesOut convert_bytes(BytesIn data, const std::string& from, const std::string& to, const std::string& rounding,
                       uint64_t seed, uint64_t index, bool portable, int64_t count) {
  Dtype a = dtype_named(from), b = dtype_named(to);
  size_t n = count >= 0 ? size_t(count) : data.size() * 8 / size_t(bits(a));
  Rounding how = rounding_named(rounding, seed, index);
  uint8_t* out = nullptr;
  size_t size = bytes(b, n);
  BytesOut array = owned<BytesOut>(size, out);
  or_raise(convert(std::as_bytes(std::span(data.data(), data.size())), a, std::as_writable_bytes(std::span(out, size)),
                   b, how, portable ? Simd::portable : simd_best()));
  return array;
}

MxRule rule_named(const std::string& name) {
  if (name == "chip") return MxRule::chip;
  if (name == "ocp") return MxRule::ocp;
  throw nb::value_error(cat("no MX rule \"", name, "\"; chip or ocp").c_str());
}

nb::tuple quantize(FloatsIn values, const std::string& element, const std::string& rule) {
  Dtype dtype = dtype_named(element);
  uint8_t *codes = nullptr, *scales = nullptr;
  size_t code_bytes = bytes(row(dtype).element, values.size()), blocks = values.size() / kMxBlock;
  BytesOut code_array = owned<BytesOut>(code_bytes, codes);
  BytesOut scale_array = owned<BytesOut>(blocks, scales);
  or_raise(mx_quantize({values.data(), values.size()}, dtype, rule_named(rule),
                       std::as_writable_bytes(std::span(codes, code_bytes)), {scales, blocks}));
  return nb::make_tuple(code_array, scale_array);
}

FloatsOut dequantize(BytesIn codes, BytesIn scales, const std::string& element) {
  size_t n = scales.size() * kMxBlock;
  float* out = nullptr;
  FloatsOut array = owned<FloatsOut>(n, out);
  or_raise(mx_dequantize(std::as_bytes(std::span(codes.data(), codes.size())), dtype_named(element),
                         {scales.data(), scales.size()}, {out, n}));
  return array;
}

nb::list dtypes() {
  nb::list out;
  for (const DtypeRow& r : kDtypes) {
    nb::dict d;
    auto text = [](std::string_view s) { return nb::str(s.data(), s.size()); };
    d["name"] = text(r.name);
    d["bits"] = r.bits;
    d["numpy"] = text(r.abroad.numpy);
    d["nki"] = text(r.abroad.nki);
    d["stablehlo"] = text(r.abroad.stablehlo);
    d["torch"] = text(r.abroad.torch);
    d["safetensors"] = text(r.abroad.safetensors);
    d["max"] = r.max_finite;
    d["min"] = r.min_finite;
    d["packed"] = r.kind == DtypeKind::packed;
    d["is_on_chip"] = is_on_chip(r.dtype);
    out.append(d);
  }
  return out;
}

}  // namespace

void bind_number(nb::module_& m) {
  using namespace nb::literals;
  m.def("dtypes", dtypes, "One dict per number format.");
  m.def("convert", convert_bytes, "data"_a, "from_dtype"_a, "to_dtype"_a, "rounding"_a = "nearest", "seed"_a = 0,
        "index"_a = 0, "portable"_a = false, "count"_a = -1,
        "Converts packed bytes of one dtype into another; count says how many when a sub-byte row is odd.");
  m.def("mx_quantize", quantize, "values"_a, "element"_a, "rule"_a = "chip", "(codes, scales) of whole blocks of 32.");
  m.def("mx_dequantize", dequantize, "codes"_a, "scales"_a, "element"_a, "Values of MX blocks.");
  m.def("random_at", random_at, "seed"_a, "index"_a, "The Philox word of stochastic rounding.");
}
