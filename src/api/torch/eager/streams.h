// Streams of `neuron`: each thread has a current one per device. Ops of the default stream, number 0, have run when
// they return; those of another are tasks of its queue (tasks.h), beside their caller. Whatever the host does to a
// device's memory passes await_uses() first. On `xla` streams are only numbers: ops are recorded in order.
#pragma once

#include "api/torch/aten.h"

#include <string>

#include "api/torch/backend.h"
#include "api/torch/eager/tasks.h"

namespace trine::api::neuron {

c10::Stream current_stream(c10::Device device);
c10::Stream exchange_stream(c10::Stream stream);  // the one before
c10::Stream new_stream(c10::Device device);

bool is_beside(const c10::Stream& stream);  // its ops are tasks
inline bool is_beside(c10::Device device) { return is_beside(current_stream(device)); }

MomentPtr record(const c10::Stream& stream);                     // the end of all that is in it now
void block(const c10::Stream& stream, const MomentPtr& moment);  // the default stream: its caller waits
bool is_idle(const c10::Stream& stream);
void synchronize(const c10::Stream& stream);
void synchronize(const MomentPtr& moment);
void synchronize_device(c10::DeviceIndex index);  // -1: all

struct Operand {
  at::Tensor tensor;
  Use use = Use::read;
};

// Adds a task to a stream that is_beside. `run` names no tensor of ours: the addresses of operands, which are held.
void issue(const c10::Stream& stream, const std::string& name, c10::ArrayRef<Operand> operands,
           std::function<void()> run);

// Waits until the host may use the bytes: for tasks on them, and for the current stream. Throws what a task threw.
void await_uses_slowly(const at::Tensor& tensor, Use use);
inline void await_uses(const at::Tensor& tensor, Use use) {
  if (is_busy()) await_uses_slowly(tensor, use);
}
void await_writes(const c10::Storage& storage);  // of all its bytes

// A tensor's memory under the CPU's name, with no look at who uses it: for tasks, and after await_uses.
at::Tensor alias_of(const at::Tensor& tensor);

// What a collective of these operands has to wait for, and who is told of its end.
Moments moments_before(c10::ArrayRef<Operand> operands);
void note_end(c10::ArrayRef<Operand> operands, const MomentPtr& end);
std::vector<std::shared_ptr<void>> memories_of(c10::ArrayRef<Operand> operands);

}  // namespace trine::api::neuron
