// See arrays.h.
#include "api/python/arrays.h"

#include <nanobind/stl/string.h>

#include <cstring>

#include "base/text.h"

namespace nb = nanobind;

namespace trine::api {

nb::str text(std::string_view s) { return nb::str(s.data(), s.size()); }

nb::object numpy_dtype(Dtype dtype) {
  const std::string_view name = dtype == Dtype::tf32 ? "float32" : row(dtype).abroad.numpy;
  if (name.empty()) return nb::none();
  try {
    nb::module_::import_("ml_dtypes");
  } catch (const nb::python_error&) {
    // without it only NumPy's own formats have a dtype
  }
  try {
    return nb::module_::import_("numpy").attr("dtype")(text(name));
  } catch (const nb::python_error&) {
    return nb::none();
  }
}

nb::tuple shape_tuple(const std::vector<int64_t>& shape) {
  nb::list list;
  for (int64_t d : shape) list.append(d);
  return nb::tuple(list);
}

BytesOut owned_bytes(std::vector<std::byte> bytes) {
  auto* held = new std::vector<std::byte>(std::move(bytes));
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<std::byte>*>(p); });
  return BytesOut(held->data(), {held->size()}, owner);
}

ArrayView array_view(nb::handle array) {
  nb::module_ numpy = nb::module_::import_("numpy");
  nb::object whole = numpy.attr("ascontiguousarray")(array);
  const auto name = nb::cast<std::string>(whole.attr("dtype").attr("name"));
  ArrayView out;
  for (size_t d = 0; d < kDtypes.size(); ++d)
    if (row(Dtype(d)).abroad.numpy == name && bits(Dtype(d)) >= 8) out.view.dtype = Dtype(d), out.keep = whole;
  if (!out.keep.is_valid()) throw nb::value_error(cat("no number format for an array of ", name).c_str());
  for (nb::handle n : nb::cast<nb::tuple>(array.attr("shape"))) out.view.dims.push_back(nb::cast<int64_t>(n));
  out.view.data = reinterpret_cast<void*>(nb::cast<uintptr_t>(whole.attr("ctypes").attr("data")));
  return out;
}

nb::object as_array(const TensorView& view) {
  std::vector<std::byte> bytes(view.bytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), view.data, bytes.size());
  const nb::object dtype = numpy_dtype(view.dtype);
  nb::object array = nb::cast(owned_bytes(std::move(bytes)));
  if (dtype.is_none()) return array;
  return array.attr("view")(dtype).attr("reshape")(shape_tuple(view.dims));
}

}  // namespace trine::api
