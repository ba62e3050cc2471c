// The PJRT C API as this plugin sees it, 0.90: programs, executables and their runs. Our own declarations; the names of
// fields are the API's, so that a test can hold every offset against the API's own header.
#pragma once

#include "api/pjrt/abi_buffer.h"

namespace trine::api::pjrt {

struct Program : Args {
  char* code;
  size_t code_size;
  const char* format;
  size_t format_size;
};

struct ClientCompileArgs : Args {
  Client* client;
  const Program* program;
  const char* compile_options;
  size_t compile_options_size;
  LoadedExecutable* executable;
};

struct ExecuteContextCreateArgs : Args {
  void* context;
};

struct ExecuteContextDestroyArgs : Args {
  void* context;
};

struct ExecutableDestroyArgs : Args {
  Executable* executable;
};

struct LoadedExecutableDestroyArgs : Args {
  LoadedExecutable* executable;
};

struct LoadedExecutableGetExecutableArgs : Args {
  LoadedExecutable* loaded_executable;
  Executable* executable;
};

struct LoadedExecutableGetDeviceAssignmentArgs : Args {
  LoadedExecutable* executable;
  const char* serialized_bytes;
  size_t serialized_bytes_size;
  Text* serialized_device_assignment;
  void (*serialized_device_assignment_deleter)(Text* da);
};

struct ExecutableNameArgs : Args {
  Executable* executable;
  const char* executable_name;
  size_t executable_name_size;
};

struct ExecutableNumReplicasArgs : Args {
  Executable* executable;
  size_t num_replicas;
};

struct ExecutableNumPartitionsArgs : Args {
  Executable* executable;
  size_t num_partitions;
};

struct LoadedExecutableAddressableDevicesArgs : Args {
  LoadedExecutable* executable;
  Device* const* addressable_devices;
  size_t num_addressable_devices;
};

struct ExecutableOptimizedProgramArgs : Args {
  Executable* executable;
  Program* program;
};

struct LoadedExecutableDeleteArgs : Args {
  LoadedExecutable* executable;
};

struct LoadedExecutableIsDeletedArgs : Args {
  LoadedExecutable* executable;
  bool is_deleted;
};

struct ExecuteOptions : Args {
  void** send_callbacks;
  void** recv_callbacks;
  size_t num_send_ops;
  size_t num_recv_ops;
  int launch_id;
  const int64_t* non_donatable_input_indices;
  size_t num_non_donatable_input_indices;
  void* context;
  const char* call_location;
  size_t num_tasks;
  int* task_ids;
  int64_t* incarnation_ids;
};

struct LoadedExecutableExecuteArgs : Args {
  LoadedExecutable* executable;
  ExecuteOptions* options;
  Buffer* const* const* argument_lists;
  size_t num_devices;
  size_t num_args;
  Buffer** const* output_lists;
  Event** device_complete_events;
  Device* execute_device;
};

struct ExecutableNumOutputsArgs : Args {
  Executable* executable;
  size_t num_outputs;
};

struct ExecutableSizeOfGeneratedCodeInBytesArgs : Args {
  Executable* executable;
  int64_t size_in_bytes;
};

struct ExecutableFingerprintArgs : Args {
  Executable* executable;
  const char* executable_fingerprint;
  size_t executable_fingerprint_size;
};

struct ExecutableGetCostAnalysisArgs : Args {
  Executable* executable;
  size_t num_properties;
  const NamedValue* properties;
};

struct ExecutableGetCompiledMemoryStatsArgs : Args {
  Executable* executable;
  int64_t generated_code_size_in_bytes;
  int64_t argument_size_in_bytes;
  int64_t output_size_in_bytes;
  int64_t alias_size_in_bytes;
  int64_t temp_size_in_bytes;
  int64_t host_generated_code_size_in_bytes;
  int64_t host_argument_size_in_bytes;
  int64_t host_output_size_in_bytes;
  int64_t host_alias_size_in_bytes;
  int64_t host_temp_size_in_bytes;
  int64_t peak_memory_in_bytes;
  int64_t total_size_in_bytes;
};

struct ExecutableOutputElementTypesArgs : Args {
  Executable* executable;
  BufferType* output_types;
  size_t num_output_types;
};

struct ExecutableOutputDimensionsArgs : Args {
  Executable* executable;
  size_t num_outputs;
  const int64_t* dims;
  const size_t* dim_sizes;
};

struct ExecutableOutputMemoryKindsArgs : Args {
  Executable* executable;
  size_t num_outputs;
  const char* const* memory_kinds;
  const size_t* memory_kind_sizes;
};

struct ExecutableSerializeArgs : Args {
  const Executable* executable;
  const char* serialized_bytes;
  size_t serialized_bytes_size;
  Text* serialized_executable;
  void (*serialized_executable_deleter)(Text* exec);
};

struct ExecutableGetCompileOptionsArgs : Args {
  Executable* executable;
  const char* serialized_bytes;
  size_t serialized_bytes_size;
  Text* serialized_compile_options;
  void (*serialized_compile_options_deleter)(Text* options);
};

struct ExecutableDeserializeAndLoadArgs : Args {
  Client* client;
  const char* serialized_executable;
  size_t serialized_executable_size;
  LoadedExecutable* loaded_executable;
  const char* overridden_serialized_compile_options;
  size_t overridden_serialized_compile_options_size;
};

struct LoadedExecutableFingerprintArgs : Args {
  LoadedExecutable* executable;
  const char* executable_fingerprint;
  size_t executable_fingerprint_size;
};

struct CompileArgs : Args {
  const TopologyDescription* topology;
  const Program* program;
  const char* compile_options;
  size_t compile_options_size;
  Client* client;
  Executable* executable;
};

}  // namespace trine::api::pjrt
