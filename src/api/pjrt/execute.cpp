// Running a loaded executable.
#include <algorithm>
#include <array>
#include <memory_resource>

#include "api/pjrt/calls.h"
#include "base/text.h"

namespace trine::api::pjrt {

namespace {

// The program as loaded, or for the one device the caller names.
Result<run::NativeProgram*> program_for(LoadedExecutable& loaded, Device* device) {
  if (!device || (loaded.devices.size() == 1 && loaded.devices[0] == device)) return loaded.native.get();
  std::lock_guard lock(loaded.mutex);
  std::shared_ptr<run::NativeProgram>& found = loaded.elsewhere[device];
  if (!found) {
    const api::Executable& program = *loaded.executable->program;
    found = TRY(run::NativeProgram::make(*loaded.client->client, program.name(), program.plan, {device->device}, {},
                                         loaded.executable->kinds));
  }
  return found.get();
}

// JAX moves arguments to the layouts it was told of; a caller that does not is told here.
Result<void> check_layouts(const LoadedExecutableExecuteArgs& args) {
  const api::Executable& program = *args.executable->executable->program;
  for (size_t d = 0; d < args.num_devices; ++d)
    for (size_t i = 0; i < std::min(args.num_args, program.input_count()); ++i) {
      const BufferLayoutPtr& layout = args.argument_lists[d][i]->layout;
      const Dims& want = program.input_layout(i);
      if (layout ? layout->minor_to_major == want : want.empty()) continue;
      const size_t rank = program.input(i).dims.size();
      return fail(Code::invalid, cat("argument ", i, " of ", program.name(), " has the layout ",
                                     compile::layout_text(layout ? layout->minor_to_major : Dims(), rank),
                                     ", expected ", compile::layout_text(want, rank)));
    }
  return {};
}

Result<run::NativeProgram::Launched> launch(const LoadedExecutableExecuteArgs& args, run::NativeProgram& program,
                                            std::pmr::memory_resource* memory) {
  TRY(check_layouts(args));
  std::pmr::vector<run::Buffer*> buffers(args.num_devices * args.num_args, memory);
  std::pmr::vector<std::span<run::Buffer* const>> arguments(args.num_devices, memory);
  for (size_t d = 0; d < args.num_devices; ++d) {
    for (size_t i = 0; i < args.num_args; ++i) buffers[d * args.num_args + i] = args.argument_lists[d][i]->buffer.get();
    arguments[d] = std::span(buffers).subspan(d * args.num_args, args.num_args);
  }
  return program.launch(
      arguments, {args.options->non_donatable_input_indices, args.options->num_non_donatable_input_indices}, memory);
}

}  // namespace

ErrorHandle* loaded_execute(LoadedExecutableExecuteArgs* args) {
  LoadedExecutable& loaded = *args->executable;
  if (loaded.is_deleted) return make_error(fail(Code::invalid, "this executable has been deleted"));
  auto program = program_for(loaded, args->execute_device);
  if (!program) return make_error(program.error());
  std::array<std::byte, 1024> few;  // for lists that are short
  std::pmr::monotonic_buffer_resource memory(few.data(), few.size());
  auto launched = launch(*args, **program, &memory);
  if (!launched) return make_error(launched.error());
  for (size_t d = 0; d < args->num_devices; ++d) {
    Device* device = args->execute_device ? args->execute_device : loaded.here[d];
    auto& outputs = launched->outputs[d];
    for (size_t o = 0; o < outputs.size(); ++o)
      args->output_lists[d][o] = new Buffer{device, std::move(outputs[o]), loaded.executable->output_layouts[o]};
    if (args->device_complete_events) args->device_complete_events[d] = make_event(launched->done[d]);
  }
  return nullptr;
}

ErrorHandle* execute_context_create(ExecuteContextCreateArgs* args) {
  args->context = new char;
  return nullptr;
}
ErrorHandle* execute_context_destroy(ExecuteContextDestroyArgs* args) {
  delete static_cast<char*>(args->context);
  return nullptr;
}

}  // namespace trine::api::pjrt
