// Copies in, out and across. What a copy reads is held until it is done, and marked so that nobody writes over it.
#include "run/devices/transfer.h"

#include <cstring>

#include "base/text.h"
#include "run/devices/device.h"
#include "run/profile/ran.h"

namespace trine::run {

namespace {

Dims dense_strides(const Dims& dims, size_t element_bytes) {
  Dims out = row_major_strides(dims);
  for (int64_t& s : out) s *= int64_t(element_bytes);
  return out;
}

bool is_dense(const Dims& dims, std::span<const int64_t> strides, size_t element_bytes) {
  int64_t want = int64_t(element_bytes);
  for (size_t i = dims.size(); i-- > 0; want *= dims[i]) {
    if (dims[i] == 0) return true;
    if (dims[i] != 1 && strides[i] != want) return false;
  }
  return true;
}

template <size_t kBytes>
void copy_row(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, kBytes);
}

// Runs `copy` when the buffer is ready, in the thread that makes it so; its bytes are in foreign use until then.
template <class Copy>
Future when_ready(const Buffer& buffer, Copy copy) {
  auto storage = buffer.use_foreign();
  if (!storage) return Future::failed(storage.error());
  if (buffer.ready().is_ready()) {
    if (const Error* error = buffer.ready().error()) {
      (*storage)->end_foreign_use();
      return Future::failed(*error);
    }
    copy((*storage)->data());
    (*storage)->end_foreign_use();
    return {};
  }
  Promise done;
  buffer.ready().on_ready([storage = *storage, copy = std::move(copy), done](const Error* error) {
    if (!error) copy(storage->data());
    storage->end_foreign_use();
    done.set(error ? Result<void>(*error) : Result<void>());
  });
  return done.future();
}

}  // namespace

void copy_strided(std::byte* to, std::span<const int64_t> to_strides, const std::byte* from,
                  std::span<const int64_t> from_strides, std::span<const int64_t> dims, size_t element_bytes) {
  if (dims.empty()) {
    std::memcpy(to, from, element_bytes);
    return;
  }
  if (dims.size() > 1) {
    for (int64_t i = 0; i < dims[0]; ++i)
      copy_strided(to + i * to_strides[0], to_strides.subspan(1), from + i * from_strides[0], from_strides.subspan(1),
                   dims.subspan(1), element_bytes);
    return;
  }
  static constexpr decltype(&copy_row<1>) kRows[] = {copy_row<1>, copy_row<2>, copy_row<4>, copy_row<8>, copy_row<16>};
  const size_t unit = size_t(to_strides[0]), other = size_t(from_strides[0]);
  if (unit == element_bytes && other == element_bytes) {
    std::memcpy(to, from, size_t(dims[0]) * element_bytes);
    return;
  }
  kRows[__builtin_ctzll(element_bytes)](to, to_strides[0], from, from_strides[0], dims[0]);
}

Result<std::unique_ptr<Buffer>> from_host(Device& device, const HostArray& host, MemoryKind kind) {
  auto storage = TRY(device.memory(kind).allocate({.dtype = host.dtype, .dims = host.dims}));
  const size_t element = size_t(trine::bytes(host.dtype));
  if (storage->bytes() > 0) {
    const TransferClock clock(Transfer::to_device, int64_t(storage->bytes()), int(device.id()));
    if (host.byte_strides.empty() || is_dense(host.dims, host.byte_strides, element)) {
      std::memcpy(storage->data(), host.data, storage->bytes());
    } else {
      copy_strided(storage->data(), dense_strides(host.dims, element), static_cast<const std::byte*>(host.data),
                   host.byte_strides, host.dims, element);
    }
  }
  device.counters().host_to_device_bytes += int64_t(storage->bytes());
  return std::make_unique<Buffer>(device, host.dtype, host.dims, std::move(storage), Future(), kind);
}

Future to_host_part(const Buffer& buffer, void* to, int64_t offset, int64_t bytes) {
  if (offset < 0 || bytes < 0 || offset > int64_t(buffer.bytes()) || bytes > int64_t(buffer.bytes()) - offset)
    return Future::failed(fail(Code::out_of_range, cat("bytes ", offset, " to ", offset + bytes, " of an array of ",
                                                       buffer.bytes(), " bytes")));
  buffer.device().counters().device_to_host_bytes += bytes;
  return when_ready(buffer, [to, offset, bytes, device = int(buffer.device().id())](const std::byte* from) {
    if (bytes == 0) return;
    const TransferClock clock(Transfer::from_device, bytes, device);
    std::memcpy(to, from + offset, size_t(bytes));
  });
}

Future to_host(const Buffer& buffer, void* to, std::span<const int64_t> byte_strides) {
  const size_t element = size_t(trine::bytes(buffer.dtype()));
  if (byte_strides.empty() || is_dense(buffer.dims(), byte_strides, element))
    return to_host_part(buffer, to, 0, int64_t(buffer.bytes()));
  buffer.device().counters().device_to_host_bytes += int64_t(buffer.bytes());
  Dims strides(byte_strides.begin(), byte_strides.end());
  return when_ready(buffer, [to, element, strides, dims = buffer.dims(), bytes = int64_t(buffer.bytes()),
                             device = int(buffer.device().id())](const std::byte* from) {
    const TransferClock clock(Transfer::from_device, bytes, device);
    copy_strided(static_cast<std::byte*>(to), strides, from, dense_strides(dims, element), dims, element);
  });
}

Result<std::unique_ptr<Buffer>> to_device(const Buffer& buffer, Device& device, MemoryKind kind) {
  auto to = TRY(device.memory(kind).allocate({.dtype = buffer.dtype(), .dims = buffer.dims()}));
  device.counters().device_to_device_bytes += int64_t(to->bytes());
  Future done = when_ready(buffer, [to](const std::byte* from) {
    if (to->bytes() > 0) std::memcpy(to->data(), from, to->bytes());
  });
  if (const Error* error = done.error(); error && buffer.is_deleted()) return *error;
  return std::make_unique<Buffer>(device, buffer.dtype(), buffer.dims(), std::move(to), std::move(done), kind);
}

Result<std::unique_ptr<Buffer>> failed_buffer(Device& device, Dtype dtype, Dims dims, Error error) {
  auto storage = TRY(device.memory().allocate({.dtype = dtype, .dims = dims}));
  return std::make_unique<Buffer>(device, dtype, std::move(dims), std::move(storage), Future::failed(std::move(error)));
}

}  // namespace trine::run
