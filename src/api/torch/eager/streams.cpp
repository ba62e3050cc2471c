#include "api/torch/eager/streams.h"

#include <map>

#include "base/text.h"

namespace trine::api::neuron {

namespace {

constexpr auto kNeuron = c10::DeviceType::PrivateUse1;
constexpr int64_t kStreams = 32;  // of a device, as torch.cuda has them: who makes more gets the first again

thread_local std::map<std::pair<c10::DeviceType, c10::DeviceIndex>, c10::StreamId> current;  // 0 where none was set
thread_local bool was_set = false;                                                           // any; quicker to ask
std::atomic<int64_t> made = 0;

int64_t queue_of(const c10::Stream& stream) { return stream.device_index() * (kStreams + 1) + stream.id(); }

MomentPtr last_of(const c10::Stream& stream) { return is_beside(stream) ? last_task(queue_of(stream)) : nullptr; }

void wait_and_throw(const Moments& moments) {
  without_python([&] { wait_for(moments); });
  if (const auto failure = take_failure()) std::rethrow_exception(failure);
}

// The bytes from a tensor's first element to its last.
std::optional<UseOf> use_of(const at::Tensor& tensor, Use use) {
  DeviceMemory* const memory = memory_of(tensor.storage());
  if (!memory || tensor.numel() == 0) return std::nullopt;
  int64_t elements = 1;
  for (int64_t d = 0; d < tensor.dim(); ++d) elements += (tensor.size(d) - 1) * tensor.stride(d);
  const auto size = int64_t(tensor.element_size()), from = tensor.storage_offset() * size;
  return UseOf{&memory->uses, use == Use::write, from, from + elements * size};
}

std::vector<UseOf> uses_of(c10::ArrayRef<Operand> operands) {
  std::vector<UseOf> out;
  for (const Operand& o : operands)
    if (const auto use = use_of(o.tensor, o.use)) out.push_back(*use);
  return out;
}

// The same, and says in its error whose it was.
std::function<void()> named(const c10::Stream& stream, const std::string& name, std::function<void()> run) {
  return [run = std::move(run), name, stream] {
    const at::AutoDispatchBelowAutograd below;
    const auto where = [&] {
      return cat(name, ", issued on stream ", stream.id(), " of neuron:", stream.device_index());
    };
    try {
      run();
    } catch (c10::Error& e) {
      e.add_context(where());
      throw;
    } catch (const std::exception& e) {
      TORCH_CHECK(false, where(), ": ", e.what());
    }
  };
}

}  // namespace

c10::Stream current_stream(c10::Device device) {
  if (!was_set) return c10::Stream(c10::Stream::DEFAULT, device);
  const auto found = current.find({device.type(), device.index()});
  return c10::Stream(c10::Stream::UNSAFE, device, found == current.end() ? 0 : found->second);
}

c10::Stream exchange_stream(c10::Stream stream) {
  const c10::Stream before = current_stream(stream.device());
  was_set = true;
  current[{stream.device_type(), stream.device_index()}] = stream.id();
  return before;
}

c10::Stream new_stream(c10::Device device) { return c10::Stream(c10::Stream::UNSAFE, device, 1 + made++ % kStreams); }

bool is_beside(const c10::Stream& stream) { return stream.id() != 0 && stream.device_type() == kNeuron; }

MomentPtr record(const c10::Stream& stream) {
  if (!last_of(stream)) return moment_now();
  return add_task(queue_of(stream), {});  // a task of its own: it has the time at which the others ended
}

void block(const c10::Stream& stream, const MomentPtr& moment) {
  if (!is_beside(stream)) return synchronize(moment);
  if (!moment->is_past()) add_task(queue_of(stream), {.after = {moment}});
}

bool is_idle(const c10::Stream& stream) { return !last_of(stream); }

void synchronize(const c10::Stream& stream) {
  if (is_busy()) wait_and_throw({last_of(stream)});
}

void synchronize(const MomentPtr& moment) {
  if (is_busy() || !moment->is_past()) wait_and_throw({moment});
}

void synchronize_device(c10::DeviceIndex index) {
  if (!is_busy()) return;
  const int64_t from = index < 0 ? 0 : index * (kStreams + 1);
  wait_and_throw(last_tasks(from, index < 0 ? INT64_MAX : from + kStreams + 1));
}

void issue(const c10::Stream& stream, const std::string& name, c10::ArrayRef<Operand> operands,
           std::function<void()> run) {
  const int64_t queue = queue_of(stream);
  if (is_full(queue)) without_python([&] { wait_for_room(queue); });
  add_task(queue,
           {.run = named(stream, name, std::move(run)), .uses = uses_of(operands), .held = memories_of(operands)});
}

void await_uses_slowly(const at::Tensor& tensor, Use use) {
  if (tensor.device().type() != kNeuron) return;
  Moments moments = conflicts(uses_of({{tensor, use}}));
  moments.push_back(last_of(current_stream(tensor.device())));
  wait_and_throw(moments);
}

void await_writes(const c10::Storage& storage) {
  DeviceMemory* const memory = is_busy() ? memory_of(storage) : nullptr;
  if (!memory) return;
  Moments moments = conflicts({{&memory->uses, false}});
  moments.push_back(last_of(current_stream(storage.device())));
  wait_and_throw(moments);
}

at::Tensor alias_of(const at::Tensor& tensor) {
  const auto options = tensor.options().device(at::kCPU).pinned_memory(false);
  at::Tensor out = at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), options);
  if (tensor.is_conj()) out._set_conj(true);
  if (tensor.is_neg()) out._set_neg(true);
  return out;
}

Moments moments_before(c10::ArrayRef<Operand> operands) {
  if (!is_busy()) return {};
  Moments out = conflicts(uses_of(operands));
  for (const Operand& o : operands)
    if (auto last = last_of(current_stream(o.tensor.device()))) out.push_back(std::move(last));
  return out;
}

void note_end(c10::ArrayRef<Operand> operands, const MomentPtr& end) { note_uses(uses_of(operands), end); }

std::vector<std::shared_ptr<void>> memories_of(c10::ArrayRef<Operand> operands) {
  std::vector<std::shared_ptr<void>> out;
  for (const Operand& o : operands) {
    if (const DeviceMemory* memory = memory_of(o.tensor.storage()))
      out.push_back(memory->bytes);
    else if (o.tensor.storage())
      out.push_back(std::make_shared<c10::Storage>(o.tensor.storage()));
  }
  return out;
}

}  // namespace trine::api::neuron
