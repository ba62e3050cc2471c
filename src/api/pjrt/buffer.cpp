// Buffers: made from host memory, described, copied, read back, deleted.
#include "api/pjrt/calls.h"
#include "base/text.h"
#include "run/devices/transfer.h"

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

struct Where {
  Device* device;
  run::MemoryKind kind = run::MemoryKind::device;

  Where(Device* on, const Memory* in) : device(in ? in->device : on) {
    if (in) kind = in->kind;
  }
};

ErrorHandle* give(Result<std::unique_ptr<run::Buffer>> made, Device* device, Buffer*& out,
                  BufferLayoutPtr layout = nullptr) {
  if (!made) return make_error(made.error());
  out = new Buffer{device, *std::move(made), std::move(layout)};
  return nullptr;
}

Dims dense_strides(const Dims& dims, Dtype dtype) {
  Dims strides = row_major_strides(dims);
  for (int64_t& s : strides) s *= trine::bytes(dtype);
  return strides;
}

// Byte strides of a host array, where its layout is not the dense row-major one.
Result<Dims> strides_of(const BufferMemoryLayout* layout, const Buffer& buffer) {
  const Dims& dims = buffer.dims();
  const Dtype dtype = buffer.buffer->dtype();
  if (!layout) return Dims();
  if (layout->type == BufferMemoryLayoutType::strides) {
    if (layout->strides.num_byte_strides != dims.size()) return fail(Code::invalid, "strides of another rank");
    return Dims(layout->strides.byte_strides, layout->strides.byte_strides + layout->strides.num_byte_strides);
  }
  const BufferLayoutPtr wanted = TRY(device_layout(layout, dims));
  if (!wanted) return Dims();
  const Dims& order = wanted->minor_to_major;
  const Dims in_memory = dense_strides(compile::dims_in_memory(dims, order), dtype);
  return compile::dims_from_memory(in_memory, order);
}

}  // namespace

Result<BufferLayoutPtr> device_layout(const BufferMemoryLayout* layout, const Dims& dims) {
  if (!layout) return BufferLayoutPtr();
  if (layout->type != BufferMemoryLayoutType::tiled)
    return fail(Code::unsupported, "an array on a device with strides of its own");
  const BufferMemoryLayoutTiled& tiled = layout->tiled;
  if (tiled.num_tiles > 0) return fail(Code::unsupported, "an array in tiles: tensors in HBM have none");
  Dims order(tiled.minor_to_major, tiled.minor_to_major + tiled.minor_to_major_size);
  std::vector<bool> seen(dims.size());
  for (int64_t d : order) {
    if (order.size() != dims.size() || d < 0 || d >= int64_t(dims.size()) || seen[size_t(d)])
      return fail(Code::invalid, cat("the layout ", compile::layout_text(order, 0), " of an array of rank ",
                                     dims.size(), "; expected each dim once"));
    seen[size_t(d)] = true;
  }
  bool is_default = true;
  for (size_t i = 0; i < order.size(); ++i) is_default &= order[i] == int64_t(order.size() - 1 - i);
  if (is_default) return BufferLayoutPtr();
  return BufferLayoutPtr(std::make_shared<BufferLayout>(dims, std::move(order)));
}

Dims dims_in_memory(const Dims& dims, const BufferLayoutPtr& layout) {
  return layout ? compile::dims_in_memory(dims, layout->minor_to_major) : dims;
}

ErrorHandle* client_buffer_from_host_buffer(ClientBufferFromHostBufferArgs* args) {
  auto shape = shape_of(args->type, args->dims, args->num_dims);
  if (!shape) return make_error(shape.error());
  auto layout = device_layout(args->device_layout, shape->dims);
  if (!layout) return make_error(layout.error());
  Dims strides(args->byte_strides, args->byte_strides + args->num_byte_strides);
  if (*layout && strides.empty()) strides = dense_strides(shape->dims, shape->dtype);
  const Where where(args->device, args->memory);
  strides = dims_in_memory(strides, *layout);
  const run::HostArray host{args->data, shape->dtype, dims_in_memory(shape->dims, *layout), strides};
  if (ErrorHandle* error =
          give(run::from_host(*where.device->device, host, where.kind), where.device, args->buffer, *layout))
    return error;
  args->done_with_host_buffer = make_event({});
  return nullptr;
}

static ErrorHandle* make_buffer(const Where& where, Result<Shape> shape, const BufferMemoryLayout* wanted,
                                run::Future ready, Buffer*& out) {
  if (!shape) return make_error(shape.error());
  auto layout = device_layout(wanted, shape->dims);
  if (!layout) return make_error(layout.error());
  run::Device& device = *where.device->device;
  const Dims dims = dims_in_memory(shape->dims, *layout);
  auto storage = device.memory(where.kind).allocate({.dtype = shape->dtype, .dims = dims});
  if (!storage) return make_error(storage.error());
  return give(std::make_unique<run::Buffer>(device, shape->dtype, dims, *storage, std::move(ready), where.kind),
              where.device, out, *layout);
}

ErrorHandle* client_create_uninitialized_buffer(ClientCreateUninitializedBufferArgs* args) {
  return make_buffer({args->device, args->memory},
                     shape_of(args->shape_element_type, args->shape_dims, args->shape_num_dims), args->shape_layout, {},
                     args->buffer);
}
ErrorHandle* client_create_error_buffer(ClientCreateErrorBufferArgs* args) {
  auto failed = run::Future::failed(fail(code_from(args->error_code), {args->error_message, args->error_message_size}));
  return make_buffer({nullptr, args->memory},
                     shape_of(args->shape_element_type, args->shape_dims, args->shape_num_dims), args->shape_layout,
                     failed, args->buffer);
}
// The caller's memory is copied, and given back at once.
ErrorHandle* client_create_view_of_device_buffer(ClientCreateViewOfDeviceBufferArgs* args) {
  auto shape = shape_of(args->element_type, args->dims, args->num_dims);
  if (!shape) return make_error(shape.error());
  auto layout = device_layout(args->layout, shape->dims);
  if (!layout) return make_error(layout.error());
  const Where where(args->device, args->memory);
  auto made =
      run::from_host(*where.device->device,
                     {args->device_buffer_ptr, shape->dtype, dims_in_memory(shape->dims, *layout), {}}, where.kind);
  if (made && args->on_delete_callback) args->on_delete_callback(args->device_buffer_ptr, args->on_delete_callback_arg);
  return give(std::move(made), where.device, args->buffer, *layout);
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
  args->dims = args->buffer->dims().data();
  args->num_dims = args->buffer->dims().size();
  return nullptr;
}
ErrorHandle* buffer_unpadded_dimensions(BufferUnpaddedDimensionsArgs* args) {
  args->unpadded_dims = args->buffer->dims().data();
  args->num_dims = args->buffer->dims().size();
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
  const size_t rank = args->buffer->dims().size();
  if (rank > kRankMax) return make_error(fail(Code::unsupported, cat("the layout of an array of rank ", rank)));
  args->layout.type = BufferMemoryLayoutType::tiled;
  args->layout.tiled = {};
  args->layout.tiled.struct_size = sizeof args->layout.tiled;
  const BufferLayoutPtr& layout = args->buffer->layout;
  args->layout.tiled.minor_to_major = layout ? layout->minor_to_major.data() : reversed.data() + kRankMax - rank;
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
  args->memory = args->buffer->device->memory(args->buffer->buffer->kind());
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
  return give(run::to_device(*args->buffer->buffer, *args->dst_device->device), args->dst_device, args->dst_buffer,
              args->buffer->layout);
}
ErrorHandle* buffer_copy_to_memory(BufferCopyToMemoryArgs* args) {
  Device* device = args->dst_memory->device;
  return give(run::to_device(*args->buffer->buffer, *device->device, args->dst_memory->kind), device, args->dst_buffer,
              args->buffer->layout);
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
  auto strides = strides_of(args->host_layout, *args->src);
  if (!strides) return make_error(strides.error());
  if (args->src->layout && strides->empty()) *strides = dense_strides(args->src->dims(), buffer.dtype());
  *strides = dims_in_memory(*strides, args->src->layout);
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
  (*storage)->packed_forms().pin();
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
  (*storage)->packed_forms().pin();
  args->device_memory_ptr = (*storage)->data();
  return nullptr;
}

}  // namespace trine::api::pjrt
