// Buffers: made from host memory, described, copied, read back, deleted.
#include "api/pjrt/calls.h"
#include "base/text.h"
#include "run/transfer.h"

namespace trine::api::pjrt {

namespace {

struct Shape {
  Dtype dtype;
  Dims dims;
};

Result<Shape> shape_of(BufferType type, const int64_t* dims, size_t rank) {
  const auto dtype = dtype_of(type);
  if (!dtype) return fail(Code::unsupported, cat("arrays of PJRT's element type ", int(type)));
  return Shape{*dtype, Dims(dims, dims + rank)};
}

Device* device_of(Device* device, Memory* memory) { return memory ? memory->device : device; }

ErrorHandle* give(Result<std::unique_ptr<run::Buffer>> made, Device* device, Buffer*& out) {
  if (!made) return make_error(made.error());
  out = new Buffer{device, *std::move(made)};
  return nullptr;
}

// Byte strides of a host array, where its layout is not the dense row-major one.
Result<Dims> strides_of(const BufferMemoryLayout* layout, const run::Buffer& buffer) {
  if (!layout) return Dims();
  if (layout->type == BufferMemoryLayoutType::strides)
    return Dims(layout->strides.byte_strides, layout->strides.byte_strides + layout->strides.num_byte_strides);
  const BufferMemoryLayoutTiled& tiled = layout->tiled;
  const Dims& dims = buffer.dims();
  if (tiled.num_tiles > 0) return fail(Code::unsupported, "a tiled layout of host memory");
  if (tiled.minor_to_major_size != dims.size()) return fail(Code::invalid, "a layout of another rank than the array's");
  Dims strides(dims.size());
  int64_t stride = trine::bytes(buffer.dtype());
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = tiled.minor_to_major[i];
    if (dim < 0 || dim >= int64_t(dims.size())) return fail(Code::invalid, cat("a layout names dimension ", dim));
    strides[size_t(dim)] = stride;
    stride *= dims[size_t(dim)];
  }
  return strides;
}

bool is_row_major(const BufferMemoryLayout* layout) {
  if (!layout || layout->type != BufferMemoryLayoutType::tiled) return !layout;
  for (size_t i = 0; i < layout->tiled.minor_to_major_size; ++i)
    if (layout->tiled.minor_to_major[i] != int64_t(layout->tiled.minor_to_major_size - 1 - i)) return false;
  return layout->tiled.num_tiles == 0;
}

}  // namespace

ErrorHandle* client_buffer_from_host_buffer(ClientBufferFromHostBufferArgs* args) {
  auto shape = shape_of(args->type, args->dims, args->num_dims);
  if (!shape) return make_error(shape.error());
  if (!is_row_major(args->device_layout))
    return make_error(fail(Code::unsupported, "an array on a device with another layout than row-major"));
  Device* device = device_of(args->device, args->memory);
  const run::HostArray host{
      args->data, shape->dtype, std::move(shape->dims), {args->byte_strides, args->num_byte_strides}};
  if (ErrorHandle* error = give(run::from_host(*device->device, host), device, args->buffer)) return error;
  args->done_with_host_buffer = make_event({});
  return nullptr;
}

static Result<std::unique_ptr<run::Buffer>> make_buffer(Device* device, Result<Shape> shape, run::Future ready) {
  Shape s = TRY(std::move(shape));
  auto storage = TRY(device->device->memory().allocate({.dtype = s.dtype, .dims = s.dims}));
  return std::make_unique<run::Buffer>(*device->device, s.dtype, std::move(s.dims), std::move(storage),
                                       std::move(ready));
}

ErrorHandle* client_create_uninitialized_buffer(ClientCreateUninitializedBufferArgs* args) {
  Device* device = device_of(args->device, args->memory);
  return give(make_buffer(device, shape_of(args->shape_element_type, args->shape_dims, args->shape_num_dims), {}),
              device, args->buffer);
}
ErrorHandle* client_create_error_buffer(ClientCreateErrorBufferArgs* args) {
  Device* device = args->memory->device;
  auto failed = run::Future::failed(fail(code_from(args->error_code), {args->error_message, args->error_message_size}));
  return give(make_buffer(device, shape_of(args->shape_element_type, args->shape_dims, args->shape_num_dims), failed),
              device, args->buffer);
}
// The caller's memory is copied, and given back at once.
ErrorHandle* client_create_view_of_device_buffer(ClientCreateViewOfDeviceBufferArgs* args) {
  auto shape = shape_of(args->element_type, args->dims, args->num_dims);
  if (!shape) return make_error(shape.error());
  if (!is_row_major(args->layout)) return make_error(fail(Code::unsupported, "a view that is not row-major"));
  Device* device = device_of(args->device, args->memory);
  auto made = run::from_host(*device->device, {args->device_buffer_ptr, shape->dtype, std::move(shape->dims), {}});
  if (made && args->on_delete_callback) args->on_delete_callback(args->device_buffer_ptr, args->on_delete_callback_arg);
  return give(std::move(made), device, args->buffer);
}

ErrorHandle* buffer_destroy(BufferDestroyArgs* args) {
  delete args->buffer;
  return nullptr;
}
ErrorHandle* buffer_element_type(BufferElementTypeArgs* args) {
  args->type = type_of(args->buffer->buffer->dtype());
  return nullptr;
}
ErrorHandle* buffer_dimensions(BufferDimensionsArgs* args) {
  args->dims = args->buffer->buffer->dims().data();
  args->num_dims = args->buffer->buffer->dims().size();
  return nullptr;
}
ErrorHandle* buffer_unpadded_dimensions(BufferUnpaddedDimensionsArgs* args) {
  args->unpadded_dims = args->buffer->buffer->dims().data();
  args->num_dims = args->buffer->buffer->dims().size();
  return nullptr;
}
ErrorHandle* buffer_dynamic_dimension_indices(BufferDynamicDimensionIndicesArgs* args) {
  args->dynamic_dim_indices = nullptr;
  args->num_dynamic_dims = 0;
  return nullptr;
}
ErrorHandle* buffer_get_memory_layout(BufferGetMemoryLayoutArgs* args) {
  constexpr size_t kRankMax = 64;
  static const auto reversed = [] {  // minor to major of rank r: the last r of 63 ... 0
    std::array<int64_t, kRankMax> out;
    for (size_t i = 0; i < kRankMax; ++i) out[i] = int64_t(kRankMax - 1 - i);
    return out;
  }();
  const size_t rank = args->buffer->buffer->dims().size();
  if (rank > kRankMax) return make_error(fail(Code::unsupported, cat("the layout of an array of rank ", rank)));
  args->layout.type = BufferMemoryLayoutType::tiled;
  args->layout.tiled = {};
  args->layout.tiled.struct_size = sizeof args->layout.tiled;
  args->layout.tiled.minor_to_major = reversed.data() + kRankMax - rank;
  args->layout.tiled.minor_to_major_size = rank;
  return nullptr;
}
ErrorHandle* buffer_on_device_size(BufferOnDeviceSizeInBytesArgs* args) {
  args->on_device_size_in_bytes = args->buffer->buffer->bytes();
  return nullptr;
}
ErrorHandle* buffer_device(BufferDeviceArgs* args) {
  args->device = args->buffer->device;
  return nullptr;
}
ErrorHandle* buffer_memory(BufferMemoryArgs* args) {
  args->memory = &args->buffer->device->memory;
  return nullptr;
}
ErrorHandle* buffer_delete(BufferDeleteArgs* args) {
  args->buffer->buffer->remove();
  return nullptr;
}
ErrorHandle* buffer_is_deleted(BufferIsDeletedArgs* args) {
  args->is_deleted = args->buffer->buffer->is_deleted();
  return nullptr;
}
ErrorHandle* buffer_copy_to_device(BufferCopyToDeviceArgs* args) {
  return give(run::to_device(*args->buffer->buffer, *args->dst_device->device), args->dst_device, args->dst_buffer);
}
ErrorHandle* buffer_copy_to_memory(BufferCopyToMemoryArgs* args) {
  Device* device = args->dst_memory->device;
  return give(run::to_device(*args->buffer->buffer, *device->device), device, args->dst_buffer);
}
ErrorHandle* buffer_to_host_buffer(BufferToHostBufferArgs* args) {
  const run::Buffer& buffer = *args->src->buffer;
  if (!args->dst) {
    args->dst_size = buffer.bytes();
    args->event = nullptr;
    return nullptr;
  }
  if (args->dst_size < buffer.bytes())
    return make_error(
        fail(Code::invalid, cat("host memory of ", args->dst_size, " bytes for an array of ", buffer.bytes())));
  auto strides = strides_of(args->host_layout, buffer);
  if (!strides) return make_error(strides.error());
  args->event = make_event(run::to_host(buffer, args->dst, *strides));
  return nullptr;
}
ErrorHandle* buffer_copy_raw_to_host(BufferCopyRawToHostArgs* args) {
  args->event = make_event(run::to_host_part(*args->buffer->buffer, args->dst, args->offset, args->transfer_size));
  return nullptr;
}
// Host threads may read device memory as it is: JAX then shows arrays to NumPy without a copy.
ErrorHandle* buffer_is_on_cpu(BufferIsOnCpuArgs* args) {
  args->is_on_cpu = true;
  return nullptr;
}
ErrorHandle* buffer_ready_event(BufferReadyEventArgs* args) {
  args->event = make_event(args->buffer->buffer->ready());
  return nullptr;
}
ErrorHandle* buffer_unsafe_pointer(BufferUnsafePointerArgs* args) {
  auto storage = args->buffer->buffer->use();
  if (!storage) return make_error(storage.error());
  (*storage)->kept().pin();
  args->buffer_pointer = reinterpret_cast<uintptr_t>((*storage)->data());
  return nullptr;
}
ErrorHandle* buffer_increase_external_reference_count(BufferIncreaseExternalReferenceCountArgs* args) {
  const auto held = args->buffer->buffer->hold_external();
  return held ? nullptr : make_error(held.error());
}
ErrorHandle* buffer_decrease_external_reference_count(BufferDecreaseExternalReferenceCountArgs* args) {
  args->buffer->buffer->release_external();
  return nullptr;
}
ErrorHandle* buffer_opaque_pointer(BufferOpaqueDeviceMemoryDataPointerArgs* args) {
  auto storage = args->buffer->buffer->use();
  if (!storage) return make_error(storage.error());
  (*storage)->kept().pin();
  args->device_memory_ptr = (*storage)->data();
  return nullptr;
}

}  // namespace trine::api::pjrt
