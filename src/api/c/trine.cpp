// The C interface of include/trine.h: each function translates and calls what the other faces call.
#include <trine.h>

#include <memory>

#include "api/executable.h"
#include "api/limits.h"
#include "api/machine.h"
#include "api/publish.h"
#include "api/recording.h"
#include "base/stop.h"
#include "base/text.h"
#include "run/devices/client.h"
#include "run/devices/transfer.h"
#include "run/drivers/native/native.h"

using namespace trine;

struct trine_error {
  Code code;
  std::string message;
};

struct trine_machine {
  api::Machine machine;
  std::unique_ptr<run::Client> client;
};

struct trine_program {
  api::ExecutablePtr executable;
  std::shared_ptr<run::NativeProgram> native;
};

struct trine_tensor {
  std::unique_ptr<run::Buffer> buffer;
};

namespace {

trine_error* error_of(const Error& error) { return new trine_error{error.code, error.text()}; }

// Runs `body`, which gives a Result<void>.
template <class Body>
trine_error* guarded(Body body) {
  const Result<void> done = without_throwing([&]() -> Result<void> {
    const Work work;
    return body();
  });
  return done ? nullptr : error_of(done.error());
}

Result<run::Device*> device_of(const trine_machine* machine, size_t device) {
  const auto devices = machine->client->devices();
  if (device >= devices.size()) return fail(Code::out_of_range, cat("device ", device, " of ", devices.size()));
  return devices[device];
}

trine_type type_of(Dtype dtype, const Dims& dims) { return {row(dtype).name.data(), dims.data(), dims.size()}; }

Result<void> slot_type(const std::vector<arch::SlotId>& slots, const arch::HostPlan& plan, size_t i, trine_type* type) {
  if (i >= slots.size()) return fail(Code::out_of_range, cat("number ", i, " of ", slots.size()));
  *type = type_of(plan.slots[slots[i]].dtype, plan.slots[slots[i]].dims);
  return {};
}

}  // namespace

extern "C" {

const char* trine_version(void) { return TRINE_VERSION; }
trine_code trine_error_code(const trine_error* error) { return static_cast<trine_code>(error->code); }
const char* trine_error_message(const trine_error* error) { return error->message.c_str(); }
void trine_error_free(trine_error* error) { delete error; }

trine_error* trine_machine_open(const char* instance, trine_machine** machine) {
  return guarded([&]() -> Result<void> {
    TRY(api::set_limits_from_environment());
    api::record_runs_from_environment("c");
    auto made = std::make_unique<trine_machine>();
    made->machine = TRY(api::choose_machine({.instance = instance ? instance : ""}));
    made->client = TRY(run::Client::make({.instance = std::make_shared<arch::Instance>(made->machine.instance),
                                          .lnc = made->machine.lnc,
                                          .visible = TRY(api::visible_cores(made->machine)),
                                          .page = api::page_options("c")}));
    *machine = made.release();
    return {};
  });
}
void trine_machine_free(trine_machine* machine) { delete machine; }
size_t trine_machine_devices(const trine_machine* machine) { return machine->client->devices().size(); }
const char* trine_machine_device_kind(const trine_machine* machine) {
  return machine->client->devices()[0]->kind().c_str();
}
trine_error* trine_machine_memory(const trine_machine* machine, size_t device, int64_t* in_use, int64_t* limit) {
  return guarded([&]() -> Result<void> {
    const run::MemoryStats stats = TRY(device_of(machine, device))->memory().stats();
    *in_use = stats.in_use_bytes;
    *limit = stats.limit_bytes;
    return {};
  });
}

trine_error* trine_compile(trine_machine* machine, size_t device, const void* bytes, size_t size,
                           trine_program** program) {
  return guarded([&]() -> Result<void> {
    run::Device* on = TRY(device_of(machine, device));
    auto executable = TRY(api::compile(std::string(static_cast<const char*>(bytes), size), {}));
    auto native = TRY(run::NativeProgram::make(*machine->client, executable->name(), executable->plan, {on}, {}));
    *program = new trine_program{std::move(executable), std::move(native)};
    return {};
  });
}
void trine_program_free(trine_program* program) { delete program; }
const char* trine_program_name(const trine_program* program) { return program->executable->name().c_str(); }
size_t trine_program_inputs(const trine_program* program) { return program->executable->input_count(); }
size_t trine_program_outputs(const trine_program* program) { return program->executable->output_count(); }
trine_error* trine_program_input(const trine_program* program, size_t i, trine_type* type) {
  const arch::HostPlan& plan = *program->executable->plan;
  return guarded([&] { return slot_type(plan.inputs, plan, i, type); });
}
trine_error* trine_program_output(const trine_program* program, size_t i, trine_type* type) {
  const arch::HostPlan& plan = *program->executable->plan;
  return guarded([&] { return slot_type(plan.outputs, plan, i, type); });
}

trine_error* trine_tensor_from_host(trine_machine* machine, size_t device, const trine_type* type, const void* data,
                                    trine_tensor** tensor) {
  return guarded([&]() -> Result<void> {
    const auto dtype = dtype_by_name(type->dtype);
    if (!dtype || is_packed(*dtype)) return fail(Code::invalid, cat("no number format \"", type->dtype, "\""));
    const run::HostArray host{data, *dtype, Dims(type->dims, type->dims + type->rank), {}};
    *tensor = new trine_tensor{TRY(run::from_host(*TRY(device_of(machine, device)), host))};
    return {};
  });
}
void trine_tensor_free(trine_tensor* tensor) { delete tensor; }
trine_error* trine_tensor_type(const trine_tensor* tensor, trine_type* type) {
  *type = type_of(tensor->buffer->dtype(), tensor->buffer->dims());
  return nullptr;
}
size_t trine_tensor_bytes(const trine_tensor* tensor) { return tensor->buffer->bytes(); }
trine_error* trine_tensor_to_host(const trine_tensor* tensor, void* data, size_t size) {
  return guarded([&]() -> Result<void> {
    if (size != tensor->buffer->bytes())
      return fail(Code::invalid, cat("room for ", size, " bytes; the tensor has ", tensor->buffer->bytes()));
    return run::to_host(*tensor->buffer, data).wait();
  });
}

trine_error* trine_run(trine_program* program, trine_tensor* const* inputs, size_t input_count,
                       trine_tensor** outputs) {
  return guarded([&]() -> Result<void> {
    std::vector<run::Buffer*> buffers;
    for (size_t i = 0; i < input_count; ++i) buffers.push_back(inputs[i]->buffer.get());
    const std::span<run::Buffer* const> lists[] = {buffers};
    auto launched = TRY(program->native->launch(lists));
    for (size_t i = 0; i < launched.outputs[0].size(); ++i)
      outputs[i] = new trine_tensor{std::move(launched.outputs[0][i])};
    return {};
  });
}

}  // extern "C"
