// Makes the client from the machine that is meant, and remembers why it could not.
#include "api/torch/devices.h"

#include <cstdlib>

#include "api/machine.h"
#include "api/publish.h"
#include "base/text.h"

namespace trine::api::neuron {

namespace {

Result<std::unique_ptr<run::Client>> make_client() {
  const Machine machine = TRY(choose_machine({}));
  return run::Client::make({.instance = std::make_shared<arch::Instance>(machine.instance),
                            .lnc = machine.lnc,
                            .visible = TRY(visible_cores(machine)),
                            .page = page_options("torch")});
}

// torchrun, Open MPI, MPICH and Slurm, by what each calls a process's number on its machine.
constexpr const char* kLocalRanks[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"};

// Of the processes that a launcher started on this machine, each starts on a core of its own.
int first_device() noexcept {
  const char* rank = nullptr;
  for (const char* name : kLocalRanks)
    if (!rank) rank = std::getenv(name);
  const int count = device_count(), wanted = rank ? std::atoi(rank) : 0;
  return count > 0 && wanted > 0 ? wanted % count : 0;
}

thread_local int current_index = -1;  // not asked for so far

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

int current_device() noexcept {
  if (current_index < 0) current_index = first_device();
  return current_index;
}
void set_current_device(int index) noexcept { current_index = index; }

Result<run::Device*> device(int index) {
  const auto devices = TRY(client())->devices();
  if (index < 0 || size_t(index) >= devices.size())
    return fail(Code::out_of_range, cat("neuron:", index, " is not there: this machine has ", devices.size(),
                                        " (TRINE_INSTANCE or `trine use` choose another)"));
  return devices[size_t(index)];
}

Result<void> run_on(int index, const run::DirectProgram& program, std::span<const void* const> inputs,
                    std::span<void* const> outputs, std::span<run::ArrayForms* const> forms) {
  const auto on = device(index);
  if (!on) return program.run(inputs, outputs, forms);
  return program.run_counted(inputs, outputs, forms, (*on)->page(), (*on)->page_core());
}

Result<std::shared_ptr<run::Storage>> allocate(int index, size_t bytes, run::Allocation what) {
  if (TensorView{what.dtype, what.dims}.bytes() != bytes) what.dtype = Dtype::u8, what.dims = {int64_t(bytes)};
  return TRY(device(index))->memory().allocate(std::move(what));
}

}  // namespace trine::api::neuron
