// The table of PJRT's functions, in its order. A row without a function answers UNIMPLEMENTED with its name: no slot is
// null, whatever a caller asks.
#include <array>

#include "api/pjrt/calls.h"
#include "api/pjrt/profiler.h"
#include "base/stop.h"
#include "base/text.h"

namespace trine::api::pjrt {

namespace {

struct Row {
  std::string_view name;
  Slot function = nullptr;
};

// What a function throws, want of memory or an interrupt, is its answer.
template <auto kFunction>
struct Guarded;
template <class T, ErrorHandle* (*kFunction)(T*)>
struct Guarded<kFunction> {
  static ErrorHandle* call(T* args) {
    ErrorHandle* answered = nullptr;
    const Result<void> done = without_throwing([&]() -> Result<void> {
      const Work work;
      answered = kFunction(args);
      return {};
    });
    return done ? answered : make_error(done.error());
  }
};

template <auto kFunction>
Slot slot() {
  return reinterpret_cast<Slot>(&Guarded<kFunction>::call);
}

const std::array<Row, kSlots> kRows = {{
    {"PJRT_Error_Destroy", slot<error_destroy>()},
    {"PJRT_Error_Message", slot<error_message>()},
    {"PJRT_Error_GetCode", slot<error_get_code>()},
    {"PJRT_Plugin_Initialize", slot<plugin_initialize>()},
    {"PJRT_Plugin_Attributes", slot<plugin_attributes>()},
    {"PJRT_Event_Destroy", slot<event_destroy>()},
    {"PJRT_Event_IsReady", slot<event_is_ready>()},
    {"PJRT_Event_Error", slot<event_error>()},
    {"PJRT_Event_Await", slot<event_await>()},
    {"PJRT_Event_OnReady", slot<event_on_ready>()},
    {"PJRT_Client_Create", slot<client_create>()},
    {"PJRT_Client_Destroy", slot<client_destroy>()},
    {"PJRT_Client_PlatformName", slot<client_platform_name>()},
    {"PJRT_Client_ProcessIndex", slot<client_process_index>()},
    {"PJRT_Client_PlatformVersion", slot<client_platform_version>()},
    {"PJRT_Client_Devices", slot<client_devices>()},
    {"PJRT_Client_AddressableDevices", slot<client_addressable_devices>()},
    {"PJRT_Client_LookupDevice", slot<client_lookup_device>()},
    {"PJRT_Client_LookupAddressableDevice", slot<client_lookup_addressable_device>()},
    {"PJRT_Client_AddressableMemories", slot<client_addressable_memories>()},
    {"PJRT_Client_Compile", slot<client_compile>()},
    {"PJRT_Client_DefaultDeviceAssignment", slot<client_default_device_assignment>()},
    {"PJRT_Client_BufferFromHostBuffer", slot<client_buffer_from_host_buffer>()},
    {"PJRT_DeviceDescription_Id", slot<device_description_id>()},
    {"PJRT_DeviceDescription_ProcessIndex", slot<device_description_process_index>()},
    {"PJRT_DeviceDescription_Attributes", slot<device_description_attributes>()},
    {"PJRT_DeviceDescription_Kind", slot<device_description_kind>()},
    {"PJRT_DeviceDescription_DebugString", slot<device_description_debug_string>()},
    {"PJRT_DeviceDescription_ToString", slot<device_description_to_string>()},
    {"PJRT_Device_GetDescription", slot<device_get_description>()},
    {"PJRT_Device_IsAddressable", slot<device_is_addressable>()},
    {"PJRT_Device_LocalHardwareId", slot<device_local_hardware_id>()},
    {"PJRT_Device_AddressableMemories", slot<device_addressable_memories>()},
    {"PJRT_Device_DefaultMemory", slot<device_default_memory>()},
    {"PJRT_Device_MemoryStats", slot<device_memory_stats>()},
    {"PJRT_Memory_Id", slot<memory_id>()},
    {"PJRT_Memory_Kind", slot<memory_kind>()},
    {"PJRT_Memory_DebugString", slot<memory_debug_string>()},
    {"PJRT_Memory_ToString", slot<memory_to_string>()},
    {"PJRT_Memory_AddressableByDevices", slot<memory_addressable_by_devices>()},
    {"PJRT_Executable_Destroy", slot<executable_destroy>()},
    {"PJRT_Executable_Name", slot<executable_name>()},
    {"PJRT_Executable_NumReplicas", slot<executable_num_replicas>()},
    {"PJRT_Executable_NumPartitions", slot<executable_num_partitions>()},
    {"PJRT_Executable_NumOutputs", slot<executable_num_outputs>()},
    {"PJRT_Executable_SizeOfGeneratedCodeInBytes", slot<executable_size_of_generated_code>()},
    {"PJRT_Executable_GetCostAnalysis", slot<executable_get_cost_analysis>()},
    {"PJRT_Executable_OutputMemoryKinds", slot<executable_output_memory_kinds>()},
    {"PJRT_Executable_OptimizedProgram", slot<executable_optimized_program>()},
    {"PJRT_Executable_Serialize", slot<executable_serialize>()},
    {"PJRT_LoadedExecutable_Destroy", slot<loaded_destroy>()},
    {"PJRT_LoadedExecutable_GetExecutable", slot<loaded_get_executable>()},
    {"PJRT_LoadedExecutable_AddressableDevices", slot<loaded_addressable_devices>()},
    {"PJRT_LoadedExecutable_Delete", slot<loaded_delete>()},
    {"PJRT_LoadedExecutable_IsDeleted", slot<loaded_is_deleted>()},
    {"PJRT_LoadedExecutable_Execute", slot<loaded_execute>()},
    {"PJRT_Executable_DeserializeAndLoad", slot<executable_deserialize_and_load>()},
    {"PJRT_LoadedExecutable_Fingerprint", slot<loaded_fingerprint>()},
    {"PJRT_Buffer_Destroy", slot<buffer_destroy>()},
    {"PJRT_Buffer_ElementType", slot<buffer_element_type>()},
    {"PJRT_Buffer_Dimensions", slot<buffer_dimensions>()},
    {"PJRT_Buffer_UnpaddedDimensions", slot<buffer_unpadded_dimensions>()},
    {"PJRT_Buffer_DynamicDimensionIndices", slot<buffer_dynamic_dimension_indices>()},
    {"PJRT_Buffer_GetMemoryLayout", slot<buffer_get_memory_layout>()},
    {"PJRT_Buffer_OnDeviceSizeInBytes", slot<buffer_on_device_size>()},
    {"PJRT_Buffer_Device", slot<buffer_device>()},
    {"PJRT_Buffer_Memory", slot<buffer_memory>()},
    {"PJRT_Buffer_Delete", slot<buffer_delete>()},
    {"PJRT_Buffer_IsDeleted", slot<buffer_is_deleted>()},
    {"PJRT_Buffer_CopyToDevice", slot<buffer_copy_to_device>()},
    {"PJRT_Buffer_ToHostBuffer", slot<buffer_to_host_buffer>()},
    {"PJRT_Buffer_IsOnCpu", slot<buffer_is_on_cpu>()},
    {"PJRT_Buffer_ReadyEvent", slot<buffer_ready_event>()},
    {"PJRT_Buffer_UnsafePointer", slot<buffer_unsafe_pointer>()},
    {"PJRT_Buffer_IncreaseExternalReferenceCount", slot<buffer_increase_external_reference_count>()},
    {"PJRT_Buffer_DecreaseExternalReferenceCount", slot<buffer_decrease_external_reference_count>()},
    {"PJRT_Buffer_OpaqueDeviceMemoryDataPointer", slot<buffer_opaque_pointer>()},
    {"PJRT_CopyToDeviceStream_Destroy"},
    {"PJRT_CopyToDeviceStream_AddChunk"},
    {"PJRT_CopyToDeviceStream_TotalBytes"},
    {"PJRT_CopyToDeviceStream_GranuleSize"},
    {"PJRT_CopyToDeviceStream_CurrentBytes"},
    {"PJRT_TopologyDescription_Create", slot<topology_create>()},
    {"PJRT_TopologyDescription_Destroy", slot<topology_destroy>()},
    {"PJRT_TopologyDescription_PlatformName", slot<topology_platform_name>()},
    {"PJRT_TopologyDescription_PlatformVersion", slot<topology_platform_version>()},
    {"PJRT_TopologyDescription_GetDeviceDescriptions", slot<topology_get_device_descriptions>()},
    {"PJRT_TopologyDescription_Serialize", slot<topology_serialize>()},
    {"PJRT_TopologyDescription_Attributes", slot<topology_attributes>()},
    {"PJRT_Compile", slot<compile_for_topology>()},
    {"PJRT_Executable_OutputElementTypes", slot<executable_output_element_types>()},
    {"PJRT_Executable_OutputDimensions", slot<executable_output_dimensions>()},
    {"PJRT_Buffer_CopyToMemory", slot<buffer_copy_to_memory>()},
    {"PJRT_Client_CreateViewOfDeviceBuffer", slot<client_create_view_of_device_buffer>()},
    {"PJRT_Executable_Fingerprint", slot<executable_fingerprint>()},
    {"PJRT_Client_TopologyDescription", slot<client_topology_description>()},
    {"PJRT_Executable_GetCompiledMemoryStats", slot<executable_get_compiled_memory_stats>()},
    {"PJRT_Memory_Kind_Id", slot<memory_kind_id>()},
    {"PJRT_ExecuteContext_Create", slot<execute_context_create>()},
    {"PJRT_ExecuteContext_Destroy", slot<execute_context_destroy>()},
    {"PJRT_Buffer_CopyRawToHost", slot<buffer_copy_raw_to_host>()},
    {"PJRT_AsyncHostToDeviceTransferManager_Destroy", slot<transfer_destroy>()},
    {"PJRT_AsyncHostToDeviceTransferManager_TransferData", slot<transfer_data>()},
    {"PJRT_Client_CreateBuffersForAsyncHostToDevice", slot<client_create_buffers_for_async_host_to_device>()},
    {"PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer", slot<transfer_retrieve_buffer>()},
    {"PJRT_AsyncHostToDeviceTransferManager_Device", slot<transfer_device>()},
    {"PJRT_AsyncHostToDeviceTransferManager_BufferCount", slot<transfer_buffer_count>()},
    {"PJRT_AsyncHostToDeviceTransferManager_BufferSize", slot<transfer_buffer_size>()},
    {"PJRT_AsyncHostToDeviceTransferManager_SetBufferError", slot<transfer_set_buffer_error>()},
    {"PJRT_AsyncHostToDeviceTransferManager_AddMetadata", slot<transfer_add_metadata>()},
    {"PJRT_Client_DmaMap", slot<client_dma_map>()},
    {"PJRT_Client_DmaUnmap", slot<client_dma_unmap>()},
    {"PJRT_Client_CreateUninitializedBuffer", slot<client_create_uninitialized_buffer>()},
    {"PJRT_Client_UpdateGlobalProcessInfo", slot<client_update_global_process_info>()},
    {"PJRT_TopologyDescription_Deserialize", slot<topology_deserialize>()},
    {"PJRT_Client_CreateAliasBuffer"},
    {"PJRT_Client_FulfillAliasBuffer"},
    {"PJRT_LoadedExecutable_GetDeviceAssignment", slot<loaded_get_device_assignment>()},
    {"PJRT_Client_CreateErrorBuffer", slot<client_create_error_buffer>()},
    {"PJRT_AsyncHostToDeviceTransferManager_TransferLiteral", slot<transfer_literal>()},
    {"PJRT_Buffer_CopyRawToHostFuture"},
    {"PJRT_Device_PoisonExecution"},
    {"PJRT_Device_CreateAsyncTrackingEvent"},
    {"PJRT_AsyncTrackingEvent_Destroy"},
    {"PJRT_Executable_GetCompileOptions", slot<executable_get_compile_options>()},
    {"PJRT_Buffer_DonateWithControlDependency"},
    {"PJRT_Event_Create", slot<event_create>()},
    {"PJRT_Event_Set", slot<event_set>()},
}};

template <size_t kSlot>
ErrorHandle* unimplemented(Args*) {
  return make_error(fail(Code::unsupported, cat(kRows[kSlot].name, " is not implemented by the neuron plugin")));
}

Api make_api() {
  Api api = {};
  api.struct_size = sizeof api;
  api.extension_start = layouts_extension(profiler_extension());
  api.pjrt_api_version.struct_size = sizeof api.pjrt_api_version;
  api.pjrt_api_version.major_version = kMajor;
  api.pjrt_api_version.minor_version = kMinor;
  [&]<size_t... I>(std::index_sequence<I...>) {
    ((api.slots[I] = kRows[I].function ? kRows[I].function : slot<unimplemented<I>>()), ...);
  }(std::make_index_sequence<kSlots>{});
  return api;
}

}  // namespace

const Api* api() {
  static const Api table = make_api();
  return &table;
}

}  // namespace trine::api::pjrt
