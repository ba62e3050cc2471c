// Buffers that the caller fills piece by piece.
#include <cstring>

#include "api/pjrt/calls.h"
#include "base/text.h"

namespace trine::api::pjrt {

namespace {

Result<TransferManager::Item*> item_of(TransferManager& manager, int index) {
  if (index < 0 || size_t(index) >= manager.items.size())
    return fail(Code::out_of_range, cat("buffer ", index, " of ", manager.items.size()));
  return &manager.items[size_t(index)];
}

// With the manager's mutex held; the promise is set by the caller, after it is released.
Result<run::Promise> finish(TransferManager::Item& item) {
  if (item.is_done) return fail(Code::invalid, "this buffer has been filled already");
  item.is_done = true;
  return item.ready;
}

Result<void> write(TransferManager& manager, int index, const void* data, int64_t offset, int64_t size, bool is_last) {
  std::unique_lock lock(manager.mutex);
  TransferManager::Item& item = *TRY(item_of(manager, index));
  const int64_t bytes = int64_t(item.storage->bytes());
  if (item.is_done) return fail(Code::invalid, "this buffer has been filled already");
  if (offset < 0 || size < 0 || offset > bytes || size > bytes - offset)
    return fail(Code::out_of_range, cat("bytes ", offset, " to ", offset + size, " of a buffer of ", bytes));
  if (size > 0) std::memcpy(item.storage->data() + offset, data, size_t(size));
  if (!is_last) return {};
  const run::Promise ready = TRY(finish(item));
  lock.unlock();
  ready.set();
  return {};
}

}  // namespace

ErrorHandle* client_create_buffers_for_async_host_to_device(ClientCreateBuffersForAsyncHostToDeviceArgs* args) {
  auto manager = std::make_unique<TransferManager>();
  manager->memory = args->memory;
  run::Device& device = *args->memory->device->device;
  for (size_t i = 0; i < args->num_shape_specs; ++i) {
    const ShapeSpec& spec = args->shape_specs[i];
    const auto dtype = dtype_of(spec.element_type);
    if (!dtype)
      return make_error(fail(Code::unsupported, cat("arrays of PJRT's element type ", int(spec.element_type))));
    Dims dims(spec.dims, spec.dims + spec.num_dims);
    auto layout = device_layout(i < args->num_device_layouts ? args->device_layouts[i] : nullptr, dims);
    if (!layout) return make_error(layout.error());
    dims = dims_in_memory(dims, *layout);
    auto storage = device.memory(args->memory->kind).allocate({.dtype = *dtype, .dims = dims});
    if (!storage) return make_error(storage.error());
    TransferManager::Item item{.buffer = {}, .storage = *storage, .ready = {}};
    auto buffer = std::make_unique<run::Buffer>(device, *dtype, std::move(dims), *std::move(storage),
                                                item.ready.future(), args->memory->kind);
    item.buffer.reset(new Buffer{args->memory->device, std::move(buffer), *layout});
    manager->items.push_back(std::move(item));
  }
  args->transfer_manager = manager.release();
  return nullptr;
}
// A buffer that never got its bytes is told so.
ErrorHandle* transfer_destroy(TransferManagerDestroyArgs* args) {
  for (TransferManager::Item& item : args->transfer_manager->items)
    if (!item.is_done) item.ready.fail(fail(Code::cancelled, "the transfer into this array was given up"));
  delete args->transfer_manager;
  return nullptr;
}
ErrorHandle* transfer_data(TransferManagerTransferDataArgs* args) {
  const Result<void> done = write(*args->transfer_manager, args->buffer_index, args->data, args->offset,
                                  args->transfer_size, args->is_last_transfer);
  if (!done) return make_error(done.error());
  args->done_with_h2d_transfer = make_event({});
  return nullptr;
}
ErrorHandle* transfer_literal(TransferManagerTransferLiteralArgs* args) {
  const auto item = item_of(*args->transfer_manager, args->buffer_index);
  if (!item) return make_error(item.error());
  const Result<void> done =
      write(*args->transfer_manager, args->buffer_index, args->data, 0, int64_t((*item)->storage->bytes()), true);
  if (!done) return make_error(done.error());
  args->done_with_h2d_transfer = make_event({});
  return nullptr;
}
ErrorHandle* transfer_retrieve_buffer(TransferManagerRetrieveBufferArgs* args) {
  std::lock_guard lock(args->transfer_manager->mutex);
  const auto item = item_of(*args->transfer_manager, args->buffer_index);
  if (!item) return make_error(item.error());
  if (!(*item)->buffer) return make_error(fail(Code::invalid, "this buffer has been retrieved already"));
  args->buffer_out = (*item)->buffer.release();
  return nullptr;
}
ErrorHandle* transfer_device(TransferManagerDeviceArgs* args) {
  args->device_out = args->transfer_manager->memory->device;
  return nullptr;
}
ErrorHandle* transfer_buffer_count(TransferManagerBufferCountArgs* args) {
  args->buffer_count = args->transfer_manager->items.size();
  return nullptr;
}
ErrorHandle* transfer_buffer_size(TransferManagerBufferSizeArgs* args) {
  const auto item = item_of(*args->transfer_manager, args->buffer_index);
  if (!item) return make_error(item.error());
  args->buffer_size = (*item)->storage->bytes();
  return nullptr;
}
ErrorHandle* transfer_set_buffer_error(TransferManagerSetBufferErrorArgs* args) {
  std::unique_lock lock(args->transfer_manager->mutex);
  const auto item = item_of(*args->transfer_manager, args->buffer_index);
  if (!item) return make_error(item.error());
  const auto ready = finish(**item);
  if (!ready) return make_error(ready.error());
  lock.unlock();
  ready->fail(fail(code_from(args->error_code), {args->error_message, args->error_message_size}));
  return nullptr;
}
ErrorHandle* transfer_add_metadata(TransferManagerAddMetadataArgs*) { return nullptr; }

}  // namespace trine::api::pjrt
