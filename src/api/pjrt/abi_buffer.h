// The PJRT C API as this plugin sees it, 0.90: buffers and transfers. Our own declarations; the names of fields
// are the API's, so that a test can hold every offset against the API's own header.
#pragma once

#include "api/pjrt/abi.h"

namespace trine::api::pjrt {

enum class BufferType : int {
  invalid,
  pred,
  s8,
  s16,
  s32,
  s64,
  u8,
  u16,
  u32,
  u64,
  f16,
  f32,
  f64,
  bf16,
  c64,
  c128,
  f8e5m2,
  f8e4m3fn,
  f8e4m3b11fnuz,
  f8e5m2fnuz,
  f8e4m3fnuz,
  s4,
  u4,
  token,
  s2,
  u2,
  f8e4m3,
  f8e3m4,
  f8e8m0fnu,
  f4e2m1fn,
};

enum class HostBufferSemantics : int {
  immutable_only_during_call,
  immutable_until_transfer_completes,
  immutable_zero_copy,
  mutable_zero_copy,
};

enum class BufferMemoryLayoutType : int { tiled, strides };

struct TransferManagerDestroyArgs : Args {
  TransferManager* transfer_manager;
};

struct TransferManagerTransferDataArgs : Args {
  TransferManager* transfer_manager;
  int buffer_index;
  const void* data;
  int64_t offset;
  int64_t transfer_size;
  bool is_last_transfer;
  Event* done_with_h2d_transfer;
};

struct TransferManagerRetrieveBufferArgs : Args {
  TransferManager* transfer_manager;
  int buffer_index;
  Buffer* buffer_out;
};

struct TransferManagerDeviceArgs : Args {
  TransferManager* transfer_manager;
  Device* device_out;
};

struct TransferManagerBufferCountArgs : Args {
  TransferManager* transfer_manager;
  size_t buffer_count;
};

struct TransferManagerBufferSizeArgs : Args {
  TransferManager* transfer_manager;
  int buffer_index;
  size_t buffer_size;
};

struct TransferManagerSetBufferErrorArgs : Args {
  TransferManager* transfer_manager;
  int buffer_index;
  ErrorCode error_code;
  const char* error_message;
  size_t error_message_size;
};

struct TransferManagerAddMetadataArgs : Args {
  TransferManager* transfer_manager;
  const NamedValue* transfer_metadata;
  size_t num_metadata;
};

struct BufferMemoryLayoutTiled : Args {
  const int64_t* minor_to_major;
  size_t minor_to_major_size;
  const int64_t* tile_dims;
  const size_t* tile_dim_sizes;
  size_t num_tiles;
};

struct BufferMemoryLayoutStrides : Args {
  const int64_t* byte_strides;
  size_t num_byte_strides;
};

struct BufferMemoryLayout : Args {
  union {
    BufferMemoryLayoutTiled tiled;
    BufferMemoryLayoutStrides strides;
  };
  BufferMemoryLayoutType type;
};

struct TransferManagerTransferLiteralArgs : Args {
  TransferManager* transfer_manager;
  int buffer_index;
  const void* data;
  const int64_t* shape_dims;
  size_t shape_num_dims;
  BufferType shape_element_type;
  BufferMemoryLayout* shape_layout;
  Event* done_with_h2d_transfer;
};

struct ClientCreateUninitializedBufferArgs : Args {
  Client* client;
  const int64_t* shape_dims;
  size_t shape_num_dims;
  BufferType shape_element_type;
  BufferMemoryLayout* shape_layout;
  Device* device;
  Memory* memory;
  Buffer* buffer;
};

struct ClientCreateErrorBufferArgs : Args {
  Client* client;
  ErrorCode error_code;
  const char* error_message;
  size_t error_message_size;
  const int64_t* shape_dims;
  size_t shape_num_dims;
  BufferType shape_element_type;
  BufferMemoryLayout* shape_layout;
  Memory* memory;
  Buffer* buffer;
};

struct ClientBufferFromHostBufferArgs : Args {
  Client* client;
  const void* data;
  BufferType type;
  const int64_t* dims;
  size_t num_dims;
  const int64_t* byte_strides;
  size_t num_byte_strides;
  HostBufferSemantics host_buffer_semantics;
  Device* device;
  Memory* memory;
  BufferMemoryLayout* device_layout;
  Event* done_with_host_buffer;
  Buffer* buffer;
};

struct ClientCreateViewOfDeviceBufferArgs : Args {
  Client* client;
  void* device_buffer_ptr;
  const int64_t* dims;
  size_t num_dims;
  BufferType element_type;
  BufferMemoryLayout* layout;
  Device* device;
  void (*on_delete_callback)(void* device_buffer_ptr, void* user_arg);
  void* on_delete_callback_arg;
  intptr_t stream;
  Buffer* buffer;
  Memory* memory;
};

struct ShapeSpec : Args {
  const int64_t* dims;
  size_t num_dims;
  BufferType element_type;
};

struct ClientCreateBuffersForAsyncHostToDeviceArgs : Args {
  Client* client;
  ShapeSpec* shape_specs;
  size_t num_shape_specs;
  BufferMemoryLayout** device_layouts;
  size_t num_device_layouts;
  Memory* memory;
  TransferManager* transfer_manager;
};

struct BufferDestroyArgs : Args {
  Buffer* buffer;
};

struct BufferElementTypeArgs : Args {
  Buffer* buffer;
  BufferType type;
};

struct BufferDimensionsArgs : Args {
  Buffer* buffer;
  const int64_t* dims;
  size_t num_dims;
};

struct BufferUnpaddedDimensionsArgs : Args {
  Buffer* buffer;
  const int64_t* unpadded_dims;
  size_t num_dims;
};

struct BufferDynamicDimensionIndicesArgs : Args {
  Buffer* buffer;
  const size_t* dynamic_dim_indices;
  size_t num_dynamic_dims;
};

struct BufferGetMemoryLayoutArgs : Args {
  Buffer* buffer;
  BufferMemoryLayout layout;
};

struct BufferToHostBufferArgs : Args {
  Buffer* src;
  BufferMemoryLayout* host_layout;
  void* dst;
  size_t dst_size;
  Event* event;
};

struct BufferOnDeviceSizeInBytesArgs : Args {
  Buffer* buffer;
  size_t on_device_size_in_bytes;
};

struct BufferDeleteArgs : Args {
  Buffer* buffer;
};

struct BufferIsDeletedArgs : Args {
  Buffer* buffer;
  bool is_deleted;
};

struct BufferCopyRawToHostArgs : Args {
  Buffer* buffer;
  void* dst;
  int64_t offset;
  int64_t transfer_size;
  Event* event;
};

struct BufferCopyToDeviceArgs : Args {
  Buffer* buffer;
  Device* dst_device;
  Buffer* dst_buffer;
};

struct BufferCopyToMemoryArgs : Args {
  Buffer* buffer;
  Memory* dst_memory;
  Buffer* dst_buffer;
};

struct BufferIsOnCpuArgs : Args {
  Buffer* buffer;
  bool is_on_cpu;
};

struct BufferDeviceArgs : Args {
  Buffer* buffer;
  Device* device;
};

struct BufferMemoryArgs : Args {
  Buffer* buffer;
  Memory* memory;
};

struct BufferReadyEventArgs : Args {
  Buffer* buffer;
  Event* event;
};

struct BufferUnsafePointerArgs : Args {
  Buffer* buffer;
  uintptr_t buffer_pointer;
};

struct BufferIncreaseExternalReferenceCountArgs : Args {
  Buffer* buffer;
};

struct BufferDecreaseExternalReferenceCountArgs : Args {
  Buffer* buffer;
};

struct BufferOpaqueDeviceMemoryDataPointerArgs : Args {
  Buffer* buffer;
  void* device_memory_ptr;
};

}  // namespace trine::api::pjrt
