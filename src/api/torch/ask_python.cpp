// See ask_python.h. Both take the GIL.
#include "api/torch/aten.h"

#include "api/torch/ask_python.h"

#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

namespace trine::api::neuron {

std::string class_of(const at::Tensor& t) {
  const py::gil_scoped_acquire locked;
  return py::type::of(py::cast(t)).attr("__name__").cast<std::string>();
}

std::optional<std::vector<int64_t>> ranks_of(const std::string& group) {
  const py::gil_scoped_acquire locked;
  const auto found = py::module_::import("trine.timing").attr("_ranks_of")(group);
  if (found.is_none()) return std::nullopt;
  std::vector<int64_t> out;
  for (const auto& rank : found) out.push_back(rank.cast<int64_t>());
  return out;
}

}  // namespace trine::api::neuron
