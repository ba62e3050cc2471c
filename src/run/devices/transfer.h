// Between host memory and a device, and from device to device. Host arrays may be strided; device tensors are dense.
// Sub-byte elements take a byte each on both sides.
#pragma once

#include <memory>
#include <span>

#include "run/devices/buffer.h"

namespace trine::run {

struct HostArray {
  const void* data = nullptr;
  Dtype dtype = Dtype::f32;
  Dims dims = {};
  std::span<const int64_t> byte_strides = {};  // empty: dense, row-major; may be negative
};

// The host's bytes have been read when it returns.
Result<std::unique_ptr<Buffer>> from_host(Device& device, const HostArray& host, MemoryKind kind = MemoryKind::device);
// Writes `bytes()` of the buffer, or with strides in bytes; the future is ready when they are written.
Future to_host(const Buffer& buffer, void* to, std::span<const int64_t> byte_strides = {});
Future to_host_part(const Buffer& buffer, void* to, int64_t offset, int64_t bytes);
Result<std::unique_ptr<Buffer>> to_device(const Buffer& buffer, Device& device, MemoryKind kind = MemoryKind::device);
Result<std::unique_ptr<Buffer>> failed_buffer(Device& device, Dtype dtype, Dims dims, Error error);

// Copies between a dense array and a strided one, either way.
void copy_strided(std::byte* to, std::span<const int64_t> to_strides, const std::byte* from,
                  std::span<const int64_t> from_strides, std::span<const int64_t> dims, size_t element_bytes);

}  // namespace trine::run
