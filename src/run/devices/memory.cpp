// The account of one device's HBM, and the message when it is full.
#include "run/devices/memory.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <vector>

#include "base/file.h"
#include "base/stop.h"
#include "base/text.h"

namespace trine::run {

namespace {

constexpr std::string_view kKindNames[] = {"device", "pinned_host", "unpinned_host"};
constexpr std::string_view kClassNames[] = {"input", "output", "temporary"};
constexpr size_t kListed = 8;                       // holders named in an out-of-memory message
constexpr size_t kCheckedBytes = size_t{64} << 20;  // from here on, ask the system first: it promises more than it has

std::atomic<int64_t> held_bytes = 0;  // by the process's devices together

// Elements times bytes; -1 past what can be counted.
int64_t bytes_of(Dtype dtype, const Dims& dims) {
  int64_t bytes = trine::bytes(dtype);
  for (int64_t d : dims)
    if (d < 0 || __builtin_mul_overflow(bytes, d, &bytes)) return -1;
  return bytes;
}

// What the system says it can still give; everything where it does not say.
size_t available_bytes() {
  const auto text = read_file("/proc/meminfo");
  if (!text) return SIZE_MAX;
  const size_t at = text->find("MemAvailable:");
  return at == std::string::npos ? SIZE_MAX : size_t(std::atoll(text->c_str() + at + 13)) << 10;
}

Result<host::Memory> host_memory(size_t bytes) {
  bool fits = bytes < kCheckedBytes || bytes <= available_bytes();
  if (!fits) {
    host::Memory::clear_store();
    fits = bytes <= available_bytes();
  }
  host::Memory out;
  if (fits) out = host::Memory(bytes);
  if (!out.data())
    return fail(Code::out_of_memory, cat("this machine has no ", with_unit_bytes(double(bytes)),
                                         " of memory left to hold the virtual device's"));
  return out;
}

}  // namespace

std::string_view name(MemoryKind kind) { return kKindNames[size_t(kind)]; }
std::string_view name(MemoryClass which) { return kClassNames[size_t(which)]; }

Block::~Block() { memory_->release(*this); }

std::shared_ptr<Memory> Memory::make(std::string name, int64_t limit_bytes) {
  return std::shared_ptr<Memory>(new Memory(std::move(name), limit_bytes));
}

Memory::Memory(std::string name, int64_t limit_bytes) : name_(std::move(name)) { stats_.limit_bytes = limit_bytes; }

void Memory::add(MemoryClass which, int64_t bytes) {
  stats_.class_bytes[size_t(which)] += bytes;
  stats_.in_use_bytes += bytes;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.in_use_bytes);
  if (!counters_) return;
  counters_->memory[size_t(which)].store(stats_.class_bytes[size_t(which)], std::memory_order_relaxed);
  counters_->memory_peak.store(stats_.peak_bytes, std::memory_order_relaxed);
  counters_->touched.store(1, std::memory_order_relaxed);
}

void Memory::publish(std::shared_ptr<Page> page, size_t core) {
  page_ = std::move(page);
  counters_ = &page_->core(core);
}

Result<std::shared_ptr<Storage>> Memory::allocate(Allocation wanted) {
  const int64_t bytes = bytes_of(wanted.dtype, wanted.dims);
  if (bytes < 0)
    return fail(Code::invalid, cat("a tensor ", shape_text(wanted.dtype, wanted.dims), " has no countable size"));
  auto block = std::make_shared<Block>(Block::Key());
  block->dtype_ = wanted.dtype;
  block->class_ = wanted.memory_class;
  block->owner_ = std::move(wanted.owner);
  block->dims_ = std::move(wanted.dims);
  block->memory_ = shared_from_this();
  {
    std::lock_guard lock(mutex_);
    if (bytes > stats_.limit_bytes - stats_.in_use_bytes)
      return out_of_memory(shape_text(block->dtype_, block->dims_), bytes);
    add(block->class_, bytes);
    ++stats_.allocations;
    stats_.largest_bytes = std::max(stats_.largest_bytes, bytes);
    block->bytes_ = size_t(bytes);
    block->is_counted_ = true;
    block->after_ = live_;
    if (live_) live_->before_ = block.get();
    live_ = block.get();
  }
  const int64_t held = held_bytes += bytes;
  if (limits().host_bytes > 0 && held > limits().host_bytes)
    return fail(Code::out_of_memory, cat("virtual devices would hold ", with_unit_bytes(double(held)),
                                         " of this machine's memory; TRINE_HOST_BYTES allows ",
                                         with_unit_bytes(double(limits().host_bytes))));
  block->data_ = TRY(host_memory(size_t(bytes)));
  return std::make_shared<Storage>(std::move(block));
}

void Memory::release(Block& block) {
  std::lock_guard lock(mutex_);
  if (!block.is_counted_) return;
  (block.before_ ? block.before_->after_ : live_) = block.after_;
  if (block.after_) block.after_->before_ = block.before_;
  add(block.class_, -int64_t(block.bytes_));
  held_bytes -= int64_t(block.bytes_);
}

Result<void> Memory::check_room(int64_t bytes, std::string_view for_what) const {
  std::lock_guard lock(mutex_);
  if (bytes > stats_.limit_bytes - stats_.in_use_bytes) return out_of_memory(for_what, bytes);
  return {};
}

void Memory::begin_temporaries(int64_t bytes) {
  std::lock_guard lock(mutex_);
  add(MemoryClass::temporary, bytes);
}

void Memory::end_temporaries(int64_t bytes) {
  std::lock_guard lock(mutex_);
  add(MemoryClass::temporary, -bytes);
}

MemoryStats Memory::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void Memory::reset_peak() {
  std::lock_guard lock(mutex_);
  stats_.peak_bytes = stats_.in_use_bytes;
}

// Equal tensors of one owner are one line: a model has many layers.
Error Memory::out_of_memory(std::string_view wanted, int64_t bytes) const {
  struct Group {
    int64_t count = 0, bytes = 0;
  };
  std::map<std::string, Group> groups;
  for (const Block* s = live_; s; s = s->after_) {
    std::string what = cat(shape_text(s->dtype_, s->dims_), " ", name(s->class_));
    if (s->owner_) what += cat(" of ", *s->owner_);
    Group& group = groups[std::move(what)];
    ++group.count;
    group.bytes += int64_t(s->bytes_);
  }
  std::vector<std::pair<std::string, Group>> sorted(groups.begin(), groups.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  const int64_t in_use = stats_.in_use_bytes;
  std::string message = cat("out of memory on ", name_, ": ", wanted, " needs ", with_unit_bytes(double(bytes)), ", ",
                            with_unit_bytes(double(stats_.limit_bytes - in_use)), " of ",
                            with_unit_bytes(double(stats_.limit_bytes)), " are free");
  if (!sorted.empty()) message += "; the largest in use:";
  for (size_t i = 0; i < std::min(kListed, sorted.size()); ++i) {
    const auto& [what, group] = sorted[i];
    message += cat("\n  ", with_unit_bytes(double(group.bytes)), "  ",
                   group.count > 1 ? cat(group.count, " x ") : std::string(), what);
  }
  if (sorted.size() > kListed) message += cat("\n  and ", sorted.size() - kListed, " more kinds");
  return fail(Code::out_of_memory, std::move(message));
}

}  // namespace trine::run
