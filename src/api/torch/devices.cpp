// Makes the client from the machine that is meant, and remembers why it could not.
#include "api/torch/devices.h"

#include "api/machine.h"
#include "base/text.h"

namespace trine::api::neuron {

namespace {

Result<std::unique_ptr<run::Client>> make_client() {
  const Machine machine = TRY(choose_machine({}));
  return run::Client::make({.instance = std::make_shared<arch::Instance>(machine.instance),
                            .lnc = machine.lnc,
                            .visible = TRY(visible_cores(machine))});
}

thread_local int current_index = 0;

}  // namespace

Result<run::Client*> client() {
  static auto* made = new Result<std::unique_ptr<run::Client>>(make_client());  // tensors may outlive every static
  if (!*made) return Error(made->error());
  return (*made)->get();
}

int device_count() noexcept {
  const auto found = client();
  return found ? int((*found)->devices().size()) : 0;
}

int current_device() noexcept { return current_index; }
void set_current_device(int index) noexcept { current_index = index; }

Result<run::Device*> device(int index) {
  const auto devices = TRY(client())->devices();
  if (index < 0 || size_t(index) >= devices.size())
    return fail(Code::out_of_range, cat("neuron:", index, " is not there: this machine has ", devices.size(),
                                        " (TRINE_INSTANCE or `trine use` choose another)"));
  return devices[size_t(index)];
}

Result<std::shared_ptr<run::Storage>> allocate(int index, size_t bytes, run::Allocation what) {
  if (TensorView{what.dtype, what.dims}.bytes() != bytes) what.dtype = Dtype::u8, what.dims = {int64_t(bytes)};
  return TRY(device(index))->memory().allocate(std::move(what));
}

}  // namespace trine::api::neuron
