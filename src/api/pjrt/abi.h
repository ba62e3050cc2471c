// The PJRT C API as this plugin sees it, 0.90: versions, errors, events, clients, devices. Our own declarations; the
// names of fields are the API's, so that a test can hold every offset against the API's own header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trine::api::pjrt {

struct Extension {
  size_t struct_size;
  int type;
  Extension* next;
};

struct Args {  // begins every struct
  size_t struct_size;
  Extension* extension_start;
};

struct ApiVersion : Args {
  int major_version;
  int minor_version;
};

inline constexpr int kMajor = 0, kMinor = 90;
inline constexpr size_t kSlots = 128;

using Slot = void (*)();

struct Api {
  size_t struct_size;
  Extension* extension_start;
  ApiVersion pjrt_api_version;
  Slot slots[kSlots];
};

enum class ErrorCode : int {
  ok = 0,
  cancelled = 1,
  unknown = 2,
  invalid_argument = 3,
  not_found = 5,
  resource_exhausted = 8,
  out_of_range = 11,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
};

// Handles: what the caller holds pointers to. Their meaning is in handles.h.
struct ErrorHandle;
struct Event;
struct Client;
struct Device;
struct DeviceDescription;
struct Memory;
struct TopologyDescription;
struct Executable;
struct LoadedExecutable;
struct Buffer;
struct TransferManager;
struct Text;  // bytes given to the caller with a function that frees them

enum class NamedValueType : int { string, int64, int64_list, floating, boolean };

struct ErrorDestroyArgs : Args {
  ErrorHandle* error;
};

struct ErrorMessageArgs : Args {
  const ErrorHandle* error;
  const char* message;
  size_t message_size;
};

struct ErrorGetCodeArgs : Args {
  const ErrorHandle* error;
  ErrorCode code;
};

struct NamedValue : Args {
  const char* name;
  size_t name_size;
  NamedValueType type;
  union {
    const char* string_value;
    int64_t int64_value;
    const int64_t* int64_array_value;
    float float_value;
    bool bool_value;
  };
  size_t value_size;
};

struct PluginInitializeArgs : Args {};

struct PluginAttributesArgs : Args {
  const NamedValue* attributes;
  size_t num_attributes;
};

struct EventDestroyArgs : Args {
  Event* event;
};

struct EventIsReadyArgs : Args {
  Event* event;
  bool is_ready;
};

struct EventErrorArgs : Args {
  Event* event;
};

struct EventAwaitArgs : Args {
  Event* event;
};

struct EventOnReadyArgs : Args {
  Event* event;
  void (*callback)(ErrorHandle* error, void* user_arg);
  void* user_arg;
};

struct EventCreateArgs : Args {
  Event* event;
};

struct EventSetArgs : Args {
  Event* event;
  ErrorCode error_code;
  const char* error_message;
  size_t error_message_size;
};

// A store of texts that the processes of a job share, as the caller has it.
using CallbackError = ErrorHandle* (*)(ErrorCode code, const char* message, size_t message_size);

struct KeyValueGetCallbackArgs : Args {
  const char* key;
  size_t key_size;
  int timeout_in_ms;
  CallbackError* callback_error;
  void* user_arg;
  char* value;
  size_t value_size;
  void (*value_deleter_callback)(char* value);
};
using KeyValueGet = ErrorHandle* (*)(KeyValueGetCallbackArgs* args);

struct KeyValuePutCallbackArgs : Args {
  const char* key;
  size_t key_size;
  const char* value;
  size_t value_size;
  CallbackError* callback_error;
  void* user_arg;
};
using KeyValuePut = ErrorHandle* (*)(KeyValuePutCallbackArgs* args);

struct ClientCreateArgs : Args {
  const NamedValue* create_options;
  size_t num_options;
  KeyValueGet kv_get_callback;
  void* kv_get_user_arg;
  KeyValuePut kv_put_callback;
  void* kv_put_user_arg;
  Client* client;
  void* kv_try_get_callback;
  void* kv_try_get_user_arg;
};

struct ClientDestroyArgs : Args {
  Client* client;
};

struct ClientPlatformNameArgs : Args {
  Client* client;
  const char* platform_name;
  size_t platform_name_size;
};

struct ClientProcessIndexArgs : Args {
  Client* client;
  int process_index;
};

struct ClientPlatformVersionArgs : Args {
  Client* client;
  const char* platform_version;
  size_t platform_version_size;
};

struct ClientTopologyDescriptionArgs : Args {
  Client* client;
  TopologyDescription* topology;
};

struct ClientDevicesArgs : Args {
  Client* client;
  Device* const* devices;
  size_t num_devices;
};

struct ClientAddressableDevicesArgs : Args {
  Client* client;
  Device* const* addressable_devices;
  size_t num_addressable_devices;
};

struct ClientLookupDeviceArgs : Args {
  Client* client;
  int id;
  Device* device;
};

struct ClientLookupAddressableDeviceArgs : Args {
  Client* client;
  int local_hardware_id;
  Device* addressable_device;
};

struct ClientAddressableMemoriesArgs : Args {
  Client* client;
  Memory* const* addressable_memories;
  size_t num_addressable_memories;
};

struct ClientDefaultDeviceAssignmentArgs : Args {
  Client* client;
  int num_replicas;
  int num_partitions;
  size_t default_assignment_size;
  int* default_assignment;
};

struct ClientDmaMapArgs : Args {
  Client* client;
  void* data;
  size_t size;
};

struct ClientDmaUnmapArgs : Args {
  Client* client;
  void* data;
};

struct ClientUpdateGlobalProcessInfoArgs : Args {
  Client* client;
  void* process_infos;
  size_t num_process_infos;
};

struct DeviceDescriptionIdArgs : Args {
  DeviceDescription* device_description;
  int id;
};

struct DeviceDescriptionProcessIndexArgs : Args {
  DeviceDescription* device_description;
  int process_index;
};

struct DeviceDescriptionAttributesArgs : Args {
  DeviceDescription* device_description;
  size_t num_attributes;
  const NamedValue* attributes;
};

struct DeviceDescriptionKindArgs : Args {
  DeviceDescription* device_description;
  const char* device_kind;
  size_t device_kind_size;
};

struct DeviceDescriptionDebugStringArgs : Args {
  DeviceDescription* device_description;
  const char* debug_string;
  size_t debug_string_size;
};

struct DeviceDescriptionToStringArgs : Args {
  DeviceDescription* device_description;
  const char* to_string;
  size_t to_string_size;
};

struct DeviceGetDescriptionArgs : Args {
  Device* device;
  DeviceDescription* device_description;
};

struct DeviceIsAddressableArgs : Args {
  Device* device;
  bool is_addressable;
};

struct DeviceLocalHardwareIdArgs : Args {
  Device* device;
  int local_hardware_id;
};

struct DeviceAddressableMemoriesArgs : Args {
  Device* device;
  Memory* const* memories;
  size_t num_memories;
};

struct DeviceDefaultMemoryArgs : Args {
  Device* device;
  Memory* memory;
};

struct DeviceMemoryStatsArgs : Args {
  Device* device;
  int64_t bytes_in_use;
  int64_t peak_bytes_in_use;
  bool peak_bytes_in_use_is_set;
  int64_t num_allocs;
  bool num_allocs_is_set;
  int64_t largest_alloc_size;
  bool largest_alloc_size_is_set;
  int64_t bytes_limit;
  bool bytes_limit_is_set;
  int64_t bytes_reserved;
  bool bytes_reserved_is_set;
  int64_t peak_bytes_reserved;
  bool peak_bytes_reserved_is_set;
  int64_t bytes_reservable_limit;
  bool bytes_reservable_limit_is_set;
  int64_t largest_free_block_bytes;
  bool largest_free_block_bytes_is_set;
  int64_t pool_bytes;
  bool pool_bytes_is_set;
  int64_t peak_pool_bytes;
  bool peak_pool_bytes_is_set;
};

struct MemoryIdArgs : Args {
  Memory* memory;
  int id;
};

struct MemoryKindArgs : Args {
  Memory* memory;
  const char* kind;
  size_t kind_size;
};

struct MemoryKindIdArgs : Args {
  Memory* memory;
  int kind_id;
};

struct MemoryDebugStringArgs : Args {
  Memory* memory;
  const char* debug_string;
  size_t debug_string_size;
};

struct MemoryToStringArgs : Args {
  Memory* memory;
  const char* to_string;
  size_t to_string_size;
};

struct MemoryAddressableByDevicesArgs : Args {
  Memory* memory;
  Device* const* devices;
  size_t num_devices;
};

struct TopologyDescriptionCreateArgs : Args {
  const char* topology_name;
  size_t topology_name_size;
  const NamedValue* create_options;
  size_t num_options;
  TopologyDescription* topology;
};

struct TopologyDescriptionDestroyArgs : Args {
  TopologyDescription* topology;
};

struct TopologyDescriptionPlatformVersionArgs : Args {
  TopologyDescription* topology;
  const char* platform_version;
  size_t platform_version_size;
};

struct TopologyDescriptionPlatformNameArgs : Args {
  const TopologyDescription* topology;
  const char* platform_name;
  size_t platform_name_size;
};

struct TopologyDescriptionGetDeviceDescriptionsArgs : Args {
  const TopologyDescription* topology;
  DeviceDescription* const* descriptions;
  size_t num_descriptions;
};

struct TopologyDescriptionSerializeArgs : Args {
  TopologyDescription* topology;
  const char* serialized_bytes;
  size_t serialized_bytes_size;
  Text* serialized_topology;
  void (*serialized_topology_deleter)(Text* serialized_topology);
};

struct TopologyDescriptionDeserializeArgs : Args {
  const char* serialized_topology;
  size_t serialized_topology_size;
  TopologyDescription* topology;
};

struct TopologyDescriptionAttributesArgs : Args {
  TopologyDescription* topology;
  const NamedValue* attributes;
  size_t num_attributes;
};

}  // namespace trine::api::pjrt
