// See arrays.h.
#include "api/python/arrays.h"

#include <nanobind/stl/string.h>

#include <map>
#include <string>

#include "base/text.h"

namespace nb = nanobind;

namespace trine::api {

nb::str text(std::string_view s) { return nb::str(s.data(), s.size()); }

static nb::object find_numpy_dtype(Dtype dtype) {
  const std::string_view name = dtype == Dtype::tf32 ? "float32" : row(dtype).abroad.numpy;
  if (name.empty()) return nb::none();
  try {
    return nb::module_::import_("numpy").attr("dtype")(text(name));
  } catch (const nb::python_error&) {
    // not one of NumPy's own
  }
  try {
    nb::module_::import_("ml_dtypes");
    return nb::module_::import_("numpy").attr("dtype")(text(name));
  } catch (const nb::python_error&) {
    return nb::none();
  }
}

nb::object numpy_dtype(Dtype dtype) {
  static auto* const known = new std::map<Dtype, nb::object>;  // stays to the end, after Python's
  const auto it = known->find(dtype);
  return it != known->end() ? it->second : known->emplace(dtype, find_numpy_dtype(dtype)).first->second;
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

// "<f" of 4 bytes is float32; a struct module's letter says the kind, the item's size the rest.
static std::optional<Dtype> dtype_of(std::string_view format, Py_ssize_t size) {
  struct Kind {
    std::string_view letters, name;
  };
  static constexpr Kind kKinds[] = {{"bhilq", "int"}, {"BHILQ", "uint"}, {"efd", "float"}, {"?", "bool"}};
  if (format.size() > 1 && (format[0] == '<' || format[0] == '=' || format[0] == '@')) format.remove_prefix(1);
  if (format.size() != 1) return {};
  for (const Kind& kind : kKinds) {
    if (kind.letters.find(format[0]) == std::string_view::npos) continue;
    const std::string name = kind.name == "bool" ? "bool" : cat(kind.name, 8 * size);
    for (size_t d = 0; d < kDtypes.size(); ++d)
      if (row(Dtype(d)).abroad.numpy == name && bits(Dtype(d)) >= 8) return Dtype(d);
  }
  return {};
}

std::optional<TensorView> buffer_view(nb::handle array) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(array.ptr(), &buffer, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)) {
    PyErr_Clear();
    return {};
  }
  std::optional<TensorView> out;
  if (const auto dtype = dtype_of(buffer.format ? buffer.format : "B", buffer.itemsize))
    out = {*dtype, Dims(buffer.shape, buffer.shape + buffer.ndim), buffer.buf};
  PyBuffer_Release(&buffer);  // whoever holds the array holds its bytes
  return out;
}

ArrayView array_view(nb::handle array) {
  if (const auto view = buffer_view(array)) return {nb::borrow(array), *view};
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

nb::object as_array(Tensor tensor) {
  const nb::object dtype = numpy_dtype(tensor.dtype);
  auto* const held = new Tensor(std::move(tensor));
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  nb::object array = nb::cast(BytesOut(reinterpret_cast<uint8_t*>(held->data.get()), {held->bytes()}, owner));
  if (dtype.is_none()) return array;
  return array.attr("view")(dtype).attr("reshape")(shape_tuple(held->dims));
}

}  // namespace trine::api
