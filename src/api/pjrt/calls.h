// The functions behind the slots, by the API's groups, and the few tools they share. A function that gives null has
// succeeded. None of them throws, and none is left without an answer: see slots.cpp for the table.
#pragma once

#include <optional>
#include <string_view>

#include "api/pjrt/handles.h"

namespace trine::api::pjrt {

inline constexpr std::string_view kPlatform = "neuron";

ErrorHandle* make_error(Error error);
ErrorHandle* answer(const Result<void>& result);
ErrorCode code_of(Code code);
Code code_from(ErrorCode code);
Event* make_event(run::Future future);

Result<BufferLayoutPtr> device_layout(const BufferMemoryLayout* layout, const Dims& dims);
Dims dims_in_memory(const Dims& dims, const BufferLayoutPtr& layout);
Result<run::MemoryKind> memory_kind_of(std::string_view name);  // empty: the device's own
std::optional<Dtype> dtype_of(BufferType type);
BufferType type_of(Dtype dtype);

// For the caller to free with the function: bytes, their size, the holder and its deleter.
Text* make_text(std::string bytes);
void free_text(Text* text);

// The parts of a CompileOptionsProto that matter here.
struct ParsedOptions {
  CompileOptions compile;
  std::vector<int64_t> devices;                          // replica-major; empty: not said
  std::vector<std::pair<std::string, std::string>> own;  // the program's own compiler options, by name
};
Result<ParsedOptions> parse_compile_options(std::string_view bytes);
void write_varint(std::string& to, uint64_t value);  // as protobuf does
std::string device_assignment_bytes(const run::Assignment& assignment, std::span<Device* const> devices);

ErrorHandle* error_destroy(ErrorDestroyArgs* args);
ErrorHandle* error_message(ErrorMessageArgs* args);
ErrorHandle* error_get_code(ErrorGetCodeArgs* args);
ErrorHandle* plugin_initialize(PluginInitializeArgs* args);
ErrorHandle* plugin_attributes(PluginAttributesArgs* args);

ErrorHandle* event_destroy(EventDestroyArgs* args);
ErrorHandle* event_is_ready(EventIsReadyArgs* args);
ErrorHandle* event_error(EventErrorArgs* args);
ErrorHandle* event_await(EventAwaitArgs* args);
ErrorHandle* event_on_ready(EventOnReadyArgs* args);
ErrorHandle* event_create(EventCreateArgs* args);
ErrorHandle* event_set(EventSetArgs* args);

ErrorHandle* client_create(ClientCreateArgs* args);
ErrorHandle* client_destroy(ClientDestroyArgs* args);
ErrorHandle* client_platform_name(ClientPlatformNameArgs* args);
ErrorHandle* client_process_index(ClientProcessIndexArgs* args);
ErrorHandle* client_platform_version(ClientPlatformVersionArgs* args);
ErrorHandle* client_topology_description(ClientTopologyDescriptionArgs* args);
ErrorHandle* client_devices(ClientDevicesArgs* args);
ErrorHandle* client_addressable_devices(ClientAddressableDevicesArgs* args);
ErrorHandle* client_lookup_device(ClientLookupDeviceArgs* args);
ErrorHandle* client_lookup_addressable_device(ClientLookupAddressableDeviceArgs* args);
ErrorHandle* client_addressable_memories(ClientAddressableMemoriesArgs* args);
ErrorHandle* client_compile(ClientCompileArgs* args);
ErrorHandle* client_default_device_assignment(ClientDefaultDeviceAssignmentArgs* args);
ErrorHandle* client_dma_map(ClientDmaMapArgs* args);
ErrorHandle* client_dma_unmap(ClientDmaUnmapArgs* args);
ErrorHandle* client_update_global_process_info(ClientUpdateGlobalProcessInfoArgs* args);
ErrorHandle* client_buffer_from_host_buffer(ClientBufferFromHostBufferArgs* args);
ErrorHandle* client_create_uninitialized_buffer(ClientCreateUninitializedBufferArgs* args);
ErrorHandle* client_create_error_buffer(ClientCreateErrorBufferArgs* args);
ErrorHandle* client_create_view_of_device_buffer(ClientCreateViewOfDeviceBufferArgs* args);
ErrorHandle* client_create_buffers_for_async_host_to_device(ClientCreateBuffersForAsyncHostToDeviceArgs* args);

ErrorHandle* device_description_id(DeviceDescriptionIdArgs* args);
ErrorHandle* device_description_process_index(DeviceDescriptionProcessIndexArgs* args);
ErrorHandle* device_description_attributes(DeviceDescriptionAttributesArgs* args);
ErrorHandle* device_description_kind(DeviceDescriptionKindArgs* args);
ErrorHandle* device_description_debug_string(DeviceDescriptionDebugStringArgs* args);
ErrorHandle* device_description_to_string(DeviceDescriptionToStringArgs* args);
ErrorHandle* device_get_description(DeviceGetDescriptionArgs* args);
ErrorHandle* device_is_addressable(DeviceIsAddressableArgs* args);
ErrorHandle* device_local_hardware_id(DeviceLocalHardwareIdArgs* args);
ErrorHandle* device_addressable_memories(DeviceAddressableMemoriesArgs* args);
ErrorHandle* device_default_memory(DeviceDefaultMemoryArgs* args);
ErrorHandle* device_memory_stats(DeviceMemoryStatsArgs* args);
ErrorHandle* memory_id(MemoryIdArgs* args);
ErrorHandle* memory_kind(MemoryKindArgs* args);
ErrorHandle* memory_kind_id(MemoryKindIdArgs* args);
ErrorHandle* memory_debug_string(MemoryDebugStringArgs* args);
ErrorHandle* memory_to_string(MemoryToStringArgs* args);
ErrorHandle* memory_addressable_by_devices(MemoryAddressableByDevicesArgs* args);

ErrorHandle* topology_create(TopologyDescriptionCreateArgs* args);
ErrorHandle* topology_destroy(TopologyDescriptionDestroyArgs* args);
ErrorHandle* topology_platform_name(TopologyDescriptionPlatformNameArgs* args);
ErrorHandle* topology_platform_version(TopologyDescriptionPlatformVersionArgs* args);
ErrorHandle* topology_get_device_descriptions(TopologyDescriptionGetDeviceDescriptionsArgs* args);
ErrorHandle* topology_serialize(TopologyDescriptionSerializeArgs* args);
ErrorHandle* topology_deserialize(TopologyDescriptionDeserializeArgs* args);
ErrorHandle* topology_attributes(TopologyDescriptionAttributesArgs* args);
ErrorHandle* compile_for_topology(CompileArgs* args);

ErrorHandle* executable_destroy(ExecutableDestroyArgs* args);
ErrorHandle* executable_name(ExecutableNameArgs* args);
ErrorHandle* executable_num_replicas(ExecutableNumReplicasArgs* args);
ErrorHandle* executable_num_partitions(ExecutableNumPartitionsArgs* args);
ErrorHandle* executable_num_outputs(ExecutableNumOutputsArgs* args);
ErrorHandle* executable_size_of_generated_code(ExecutableSizeOfGeneratedCodeInBytesArgs* args);
ErrorHandle* executable_fingerprint(ExecutableFingerprintArgs* args);
ErrorHandle* executable_get_cost_analysis(ExecutableGetCostAnalysisArgs* args);
ErrorHandle* executable_get_compiled_memory_stats(ExecutableGetCompiledMemoryStatsArgs* args);
ErrorHandle* executable_output_element_types(ExecutableOutputElementTypesArgs* args);
ErrorHandle* executable_output_dimensions(ExecutableOutputDimensionsArgs* args);
ErrorHandle* executable_output_memory_kinds(ExecutableOutputMemoryKindsArgs* args);
ErrorHandle* executable_optimized_program(ExecutableOptimizedProgramArgs* args);
ErrorHandle* executable_serialize(ExecutableSerializeArgs* args);
ErrorHandle* executable_get_compile_options(ExecutableGetCompileOptionsArgs* args);
ErrorHandle* executable_deserialize_and_load(ExecutableDeserializeAndLoadArgs* args);
ErrorHandle* loaded_destroy(LoadedExecutableDestroyArgs* args);
ErrorHandle* loaded_get_executable(LoadedExecutableGetExecutableArgs* args);
ErrorHandle* loaded_get_device_assignment(LoadedExecutableGetDeviceAssignmentArgs* args);
ErrorHandle* loaded_addressable_devices(LoadedExecutableAddressableDevicesArgs* args);
ErrorHandle* loaded_delete(LoadedExecutableDeleteArgs* args);
ErrorHandle* loaded_is_deleted(LoadedExecutableIsDeletedArgs* args);
ErrorHandle* loaded_execute(LoadedExecutableExecuteArgs* args);
ErrorHandle* loaded_fingerprint(LoadedExecutableFingerprintArgs* args);
ErrorHandle* execute_context_create(ExecuteContextCreateArgs* args);
ErrorHandle* execute_context_destroy(ExecuteContextDestroyArgs* args);

ErrorHandle* buffer_destroy(BufferDestroyArgs* args);
ErrorHandle* buffer_element_type(BufferElementTypeArgs* args);
ErrorHandle* buffer_dimensions(BufferDimensionsArgs* args);
ErrorHandle* buffer_unpadded_dimensions(BufferUnpaddedDimensionsArgs* args);
ErrorHandle* buffer_dynamic_dimension_indices(BufferDynamicDimensionIndicesArgs* args);
ErrorHandle* buffer_get_memory_layout(BufferGetMemoryLayoutArgs* args);
ErrorHandle* buffer_on_device_size(BufferOnDeviceSizeInBytesArgs* args);
ErrorHandle* buffer_device(BufferDeviceArgs* args);
ErrorHandle* buffer_memory(BufferMemoryArgs* args);
ErrorHandle* buffer_delete(BufferDeleteArgs* args);
ErrorHandle* buffer_is_deleted(BufferIsDeletedArgs* args);
ErrorHandle* buffer_copy_to_device(BufferCopyToDeviceArgs* args);
ErrorHandle* buffer_copy_to_memory(BufferCopyToMemoryArgs* args);
ErrorHandle* buffer_to_host_buffer(BufferToHostBufferArgs* args);
ErrorHandle* buffer_copy_raw_to_host(BufferCopyRawToHostArgs* args);
ErrorHandle* buffer_is_on_cpu(BufferIsOnCpuArgs* args);
ErrorHandle* buffer_ready_event(BufferReadyEventArgs* args);
ErrorHandle* buffer_unsafe_pointer(BufferUnsafePointerArgs* args);
ErrorHandle* buffer_increase_external_reference_count(BufferIncreaseExternalReferenceCountArgs* args);
ErrorHandle* buffer_decrease_external_reference_count(BufferDecreaseExternalReferenceCountArgs* args);
ErrorHandle* buffer_opaque_pointer(BufferOpaqueDeviceMemoryDataPointerArgs* args);

ErrorHandle* transfer_destroy(TransferManagerDestroyArgs* args);
ErrorHandle* transfer_data(TransferManagerTransferDataArgs* args);
ErrorHandle* transfer_literal(TransferManagerTransferLiteralArgs* args);
ErrorHandle* transfer_retrieve_buffer(TransferManagerRetrieveBufferArgs* args);
ErrorHandle* transfer_device(TransferManagerDeviceArgs* args);
ErrorHandle* transfer_buffer_count(TransferManagerBufferCountArgs* args);
ErrorHandle* transfer_buffer_size(TransferManagerBufferSizeArgs* args);
ErrorHandle* transfer_set_buffer_error(TransferManagerSetBufferErrorArgs* args);
ErrorHandle* transfer_add_metadata(TransferManagerAddMetadataArgs* args);

const Api* api();  // the table

}  // namespace trine::api::pjrt
