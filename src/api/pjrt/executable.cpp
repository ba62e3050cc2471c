// Executables: what a compiled program says about itself, and its saved form.
#include <cstring>

#include "api/numerics.h"
#include "api/pjrt/calls.h"
#include "api/pjrt/hlo_program.h"
#include "api/pjrt/host_call.h"
#include "base/text.h"

namespace trine::api::pjrt {

namespace {

void give(const std::string& text, const char*& data, size_t& size) {
  data = text.data();
  size = text.size();
}

Result<std::unique_ptr<LoadedExecutable>> load_on(Client& client, std::shared_ptr<Executable> executable,
                                                  const ParsedOptions& options) {
  auto out = std::make_unique<LoadedExecutable>();
  const run::Assignment assignment{options.compile.replicas, options.compile.partitions};
  std::vector<run::Device*> devices;
  for (int64_t i = 0; i < assignment.size(); ++i) {
    const bool is_given = !options.devices.empty();
    if (is_given && int64_t(options.devices.size()) != assignment.size())
      return fail(Code::invalid, cat("a device assignment of ", options.devices.size(), " devices for a program of ",
                                     assignment.size()));
    const auto& all = client.device_pointers;
    if (!is_given && size_t(i) >= all.size())
      return fail(Code::invalid, cat("a program for ", assignment.size(), " devices, but there are ", all.size()));
    run::Device* device =
        is_given ? TRY(client.client->find_device(int(options.devices[size_t(i)]))) : all[size_t(i)]->device;
    devices.push_back(device);
    out->devices.push_back(client.find(*device));
    if (out->devices.back()->is_here()) out->here.push_back(out->devices.back());
  }
  out->client = &client;
  out->native = TRY(run::NativeProgram::make(*client.client, executable->program->name(), executable->program->plan,
                                             std::move(devices), assignment, executable->kinds));
  out->executable = std::move(executable);
  return out;
}

Result<std::shared_ptr<Executable>> show(ExecutablePtr program, std::string options) {
  std::vector<run::MemoryKind> kinds;
  for (const std::string& kind : program->output_kinds) kinds.push_back(TRY(memory_kind_of(kind)));
  return std::make_shared<Executable>(std::move(program), std::move(options), std::move(kinds));
}

Result<std::shared_ptr<Executable>> compile_program(const Program& program, std::string_view options) {
  const std::string_view format(program.format, program.format_size);
  if (format != "mlir")
    return fail(Code::unsupported, cat("a program in the format \"", format, "\"; StableHLO (\"mlir\") is read"));
  ParsedOptions parsed = TRY(parse_compile_options(options));
  parsed.compile.host_functions = host_function;
  parsed.compile.has_layouts = true;
  parsed.compile.has_choosing_truths = true;
  parsed.compile.numerics = TRY(numerics_from_environment());
  for (const auto& [name, value] : parsed.own)
    if (!name.starts_with("xla_")) TRY(set_numerics(parsed.compile.numerics, name, value));  // XLA's are for XLA
  auto compiled = TRY(compile({program.code, program.code_size}, parsed.compile));
  return show(std::move(compiled), std::string(options));
}

Result<std::unique_ptr<LoadedExecutable>> compile_and_load(const ClientCompileArgs& args) {
  const std::string_view options(args.compile_options, args.compile_options_size);
  auto executable = TRY(compile_program(*args.program, options));
  return load_on(*args.client, std::move(executable), TRY(parse_compile_options(options)));
}

Result<std::unique_ptr<LoadedExecutable>> deserialize(const ExecutableDeserializeAndLoadArgs& args) {
  Loaded loaded = TRY(load({args.serialized_executable, args.serialized_executable_size}));
  std::string options = std::move(loaded.extra);
  if (args.overridden_serialized_compile_options)
    options.assign(args.overridden_serialized_compile_options, args.overridden_serialized_compile_options_size);
  const ParsedOptions parsed = TRY(parse_compile_options(options));
  auto executable = TRY(show(std::move(loaded.executable), std::move(options)));
  return load_on(*args.client, std::move(executable), parsed);
}

// A handle of its own for the caller, sharing the program.
Executable* copy_of(const Executable& executable) {
  return new Executable(executable.program, executable.compile_options, executable.kinds);
}

}  // namespace

Executable::Executable(ExecutablePtr executable, std::string options, std::vector<run::MemoryKind> output_kinds)
    : program(std::move(executable)),
      compile_options(std::move(options)),
      hlo(hlo_program(*program)),
      kinds(std::move(output_kinds)) {
  for (size_t i = 0; i < program->input_count(); ++i)
    layouts.push_back({compile::layout_text(program->input_layout(i), program->input(i).dims.size()), true});
  for (size_t i = 0; i < program->output_count(); ++i) {
    const Dims dims = program->output_dims(i);
    output_types.push_back(type_of(program->output(i).dtype));
    output_dims.insert(output_dims.end(), dims.begin(), dims.end());
    output_ranks.push_back(dims.size());
    memory_kinds.push_back(run::name(kinds[i]).data());
    memory_kind_sizes.push_back(run::name(kinds[i]).size());
    const Dims& layout = program->output_layout(i);
    layouts.push_back({compile::layout_text(layout, dims.size()), true});
    output_layouts.push_back(layout.empty() ? nullptr : std::make_shared<BufferLayout>(dims, layout));
  }
  for (MemoryLayout& layout : layouts) layout_pointers.push_back(&layout);
  costs.add("flops", float(program->plan->flops));
  costs.add("bytes accessed", float(program->plan->moved_bytes));
}

ErrorHandle* client_compile(ClientCompileArgs* args) {
  auto made = compile_and_load(*args);
  if (!made) return make_error(made.error());
  args->executable = made->release();
  return nullptr;
}
ErrorHandle* compile_for_topology(CompileArgs* args) {
  auto made = compile_program(*args->program, {args->compile_options, args->compile_options_size});
  if (!made) return make_error(made.error());
  args->executable = copy_of(**made);
  return nullptr;
}
ErrorHandle* executable_deserialize_and_load(ExecutableDeserializeAndLoadArgs* args) {
  auto made = deserialize(*args);
  if (!made) return make_error(made.error());
  args->loaded_executable = made->release();
  return nullptr;
}

ErrorHandle* executable_destroy(ExecutableDestroyArgs* args) {
  delete args->executable;
  return nullptr;
}
ErrorHandle* executable_name(ExecutableNameArgs* args) {
  give(args->executable->program->name(), args->executable_name, args->executable_name_size);
  return nullptr;
}
ErrorHandle* executable_num_replicas(ExecutableNumReplicasArgs* args) {
  args->num_replicas = size_t(args->executable->program->options.replicas);
  return nullptr;
}
ErrorHandle* executable_num_partitions(ExecutableNumPartitionsArgs* args) {
  args->num_partitions = size_t(args->executable->program->options.partitions);
  return nullptr;
}
ErrorHandle* executable_num_outputs(ExecutableNumOutputsArgs* args) {
  args->num_outputs = args->executable->output_types.size();
  return nullptr;
}
ErrorHandle* executable_size_of_generated_code(ExecutableSizeOfGeneratedCodeInBytesArgs* args) {
  args->size_in_bytes = int64_t(args->executable->program->artifact().size());
  return nullptr;
}
ErrorHandle* executable_fingerprint(ExecutableFingerprintArgs* args) {
  give(args->executable->program->fingerprint, args->executable_fingerprint, args->executable_fingerprint_size);
  return nullptr;
}
ErrorHandle* executable_get_cost_analysis(ExecutableGetCostAnalysisArgs* args) {
  args->properties = args->executable->costs.data();
  args->num_properties = args->executable->costs.size();
  return nullptr;
}
ErrorHandle* executable_get_compiled_memory_stats(ExecutableGetCompiledMemoryStatsArgs* args) {
  const api::Executable& program = *args->executable->program;
  args->generated_code_size_in_bytes = 0;
  args->argument_size_in_bytes = program.input_bytes();
  int64_t on_host = 0;
  for (size_t i = 0; i < program.output_count(); ++i)
    if (args->executable->kinds[i] != run::MemoryKind::device) on_host += int64_t(program.output(i).bytes());
  args->output_size_in_bytes = program.output_bytes() - on_host;
  args->alias_size_in_bytes = program.donated_bytes();
  args->temp_size_in_bytes = program.plan->arena_bytes;
  args->host_output_size_in_bytes = on_host;
  args->host_generated_code_size_in_bytes = args->host_argument_size_in_bytes = args->host_alias_size_in_bytes =
      args->host_temp_size_in_bytes = 0;
  args->total_size_in_bytes =
      args->argument_size_in_bytes + args->output_size_in_bytes - args->alias_size_in_bytes + args->temp_size_in_bytes;
  args->peak_memory_in_bytes = args->total_size_in_bytes;
  return nullptr;
}
ErrorHandle* executable_output_element_types(ExecutableOutputElementTypesArgs* args) {
  args->output_types = args->executable->output_types.data();
  args->num_output_types = args->executable->output_types.size();
  return nullptr;
}
ErrorHandle* executable_output_dimensions(ExecutableOutputDimensionsArgs* args) {
  args->num_outputs = args->executable->output_ranks.size();
  args->dims = args->executable->output_dims.data();
  args->dim_sizes = args->executable->output_ranks.data();
  return nullptr;
}
ErrorHandle* executable_output_memory_kinds(ExecutableOutputMemoryKindsArgs* args) {
  args->num_outputs = args->executable->memory_kinds.size();
  args->memory_kinds = args->executable->memory_kinds.data();
  args->memory_kind_sizes = args->executable->memory_kind_sizes.data();
  return nullptr;
}
// Asked twice: for the size, then for the bytes. JAX turns it into HLO, several times for each program, and takes
// shapes, layouts and shardings from it.
ErrorHandle* executable_optimized_program(ExecutableOptimizedProgramArgs* args) {
  const Executable& executable = *args->executable;
  const std::string_view format = executable.hlo.empty() ? "mlir" : "hlo_with_config";
  const std::string& text = executable.hlo.empty() ? executable.program->text : executable.hlo;
  args->program->format = format.data();
  args->program->format_size = format.size();
  if (args->program->code) std::memcpy(args->program->code, text.data(), text.size());
  args->program->code_size = text.size();
  return nullptr;
}
ErrorHandle* executable_serialize(ExecutableSerializeArgs* args) {
  args->serialized_executable = make_text(save(*args->executable->program, args->executable->compile_options));
  args->serialized_executable_deleter = free_text;
  give(args->serialized_executable->bytes, args->serialized_bytes, args->serialized_bytes_size);
  return nullptr;
}
ErrorHandle* executable_get_compile_options(ExecutableGetCompileOptionsArgs* args) {
  args->serialized_compile_options = make_text(args->executable->compile_options);
  args->serialized_compile_options_deleter = free_text;
  give(args->serialized_compile_options->bytes, args->serialized_bytes, args->serialized_bytes_size);
  return nullptr;
}

ErrorHandle* loaded_destroy(LoadedExecutableDestroyArgs* args) {
  delete args->executable;
  return nullptr;
}
ErrorHandle* loaded_get_executable(LoadedExecutableGetExecutableArgs* args) {
  args->executable = copy_of(*args->loaded_executable->executable);
  return nullptr;
}
ErrorHandle* loaded_get_device_assignment(LoadedExecutableGetDeviceAssignmentArgs* args) {
  const LoadedExecutable& loaded = *args->executable;
  args->serialized_device_assignment = make_text(device_assignment_bytes(loaded.native->assignment(), loaded.devices));
  args->serialized_device_assignment_deleter = free_text;
  give(args->serialized_device_assignment->bytes, args->serialized_bytes, args->serialized_bytes_size);
  return nullptr;
}
ErrorHandle* loaded_addressable_devices(LoadedExecutableAddressableDevicesArgs* args) {
  args->addressable_devices = args->executable->here.data();
  args->num_addressable_devices = args->executable->here.size();
  return nullptr;
}
ErrorHandle* loaded_delete(LoadedExecutableDeleteArgs* args) {
  args->executable->is_deleted = true;
  return nullptr;
}
ErrorHandle* loaded_is_deleted(LoadedExecutableIsDeletedArgs* args) {
  args->is_deleted = args->executable->is_deleted;
  return nullptr;
}
ErrorHandle* loaded_fingerprint(LoadedExecutableFingerprintArgs* args) {
  give(args->executable->executable->program->fingerprint, args->executable_fingerprint,
       args->executable_fingerprint_size);
  return nullptr;
}

}  // namespace trine::api::pjrt
