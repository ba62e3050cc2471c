#include "api/torch/streams.h"

#include <atomic>
#include <map>

namespace trine::api::neuron {

namespace {

thread_local std::map<std::pair<c10::DeviceType, c10::DeviceIndex>, c10::StreamId> current;  // 0 where none was set
std::atomic<c10::StreamId> made = 0;

}  // namespace

c10::Stream current_stream(c10::Device device) {
  const auto found = current.find({device.type(), device.index()});
  return c10::Stream(c10::Stream::UNSAFE, device, found == current.end() ? 0 : found->second);
}

c10::Stream exchange_stream(c10::Stream stream) {
  const c10::Stream before = current_stream(stream.device());
  current[{stream.device_type(), stream.device_index()}] = stream.id();
  return before;
}

c10::Stream new_stream(c10::Device device) { return c10::Stream(c10::Stream::UNSAFE, device, ++made); }

}  // namespace trine::api::neuron
