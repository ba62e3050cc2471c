// The process group as Python makes it, the user's line that runs, and collectives on `xla` by the kernels of `neuron`.
#include <torch/csrc/utils/pybind.h>

#include "api/torch/backend.h"
#include "api/torch/group/group.h"
#include "api/torch/group/group_python.h"

#include "base/text.h"

namespace py = pybind11;

namespace trine::api::neuron {

namespace {

// Folders of torch and of this package: their lines are not the user's.
std::vector<std::string>& library_folders() {
  static auto* made = new std::vector<std::string>;
  return *made;
}

// Every group that was made, for the end of the process.
std::vector<c10::weak_intrusive_ptr<GroupBackend>>& groups() {
  static auto* made = new std::vector<c10::weak_intrusive_ptr<GroupBackend>>;
  return *made;
}

void end_groups() {
  for (auto& weak : groups())
    if (const auto group = weak.lock()) group->shutdown();
  groups().clear();
}

bool is_users(std::string_view file) {
  if (file.starts_with("<")) return false;
  for (const std::string& folder : library_folders())
    if (file.starts_with(folder)) return false;
  return true;
}

// Both names are the same devices, and one backend serves them.
void as_neuron(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), stack);
}

}  // namespace

void without_python(const std::function<void()>& body) {
  if (!Py_IsInitialized() || !PyGILState_Check()) return body();
  const py::gil_scoped_release unlocked;
  body();
}

std::string python_line() {
  if (!Py_IsInitialized()) return {};
  const py::gil_scoped_acquire locked;
  std::string out;
  PyFrameObject* frame = PyEval_GetFrame();  // borrowed
  Py_XINCREF(frame);
  while (frame) {
    PyCodeObject* const code = PyFrame_GetCode(frame);
    const char* const file = PyUnicode_AsUTF8(code->co_filename);
    if (file && is_users(file)) out = cat(file, ":", PyFrame_GetLineNumber(frame));
    Py_DECREF(code);
    PyFrameObject* const outer = out.empty() ? PyFrame_GetBack(frame) : nullptr;
    Py_DECREF(frame);
    frame = outer;
  }
  PyErr_Clear();
  return out.empty() ? "in backward" : out;
}

void bind_group(py::module_& m) {
  m.def("set_library_folders", [](std::vector<std::string> folders) { library_folders() = std::move(folders); });
  m.def("end_groups", &end_groups, py::call_guard<py::gil_scoped_release>());
  m.def(
      "make_group",
      [](const std::string& name, const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, double timeout_s,
         std::vector<int> numbers) -> c10::intrusive_ptr<c10d::Backend> {
        const auto timeout = std::chrono::milliseconds(int64_t(timeout_s * 1000));
        auto group = GroupBackend::make(name, store, rank, size, timeout, std::move(numbers));
        std::erase_if(groups(), [](const auto& weak) { return weak.expired(); });
        groups().emplace_back(group);
        return group;
      },
      py::call_guard<py::gil_scoped_release>());
}

}  // namespace trine::api::neuron

TORCH_LIBRARY_IMPL(c10d, XLA, m) {
  for (const char* const name :
       {"allreduce_", "allreduce_coalesced_", "broadcast_", "reduce_", "allgather_", "_allgather_base_",
        "allgather_coalesced_", "allgather_into_tensor_coalesced_", "gather_", "scatter_", "reduce_scatter_",
        "_reduce_scatter_base_", "reduce_scatter_tensor_coalesced_", "alltoall_base_", "alltoall_", "send", "recv_",
        "recv_any_source_", "barrier"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&trine::api::neuron::as_neuron>());
}
