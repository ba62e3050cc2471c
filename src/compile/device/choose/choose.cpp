// Digests of kernels, what was found for them before, and the race; see choose.h.
#include "compile/device/choose/choose.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <mutex>
#include <unordered_map>

#include "arch/chips/chip_text.h"
#include "base/text.h"
#include "compile/stream/cost.h"
#include "compile/stream/streams.h"
#include "compile/thresholds.h"

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::choose;

constexpr double kFsPerNs = 1e6;
constexpr size_t kKnownMax = size_t{1} << 16;  // times that are kept

using Key = Digest::Key;
struct KeyHash {
  size_t operator()(const Key& k) const { return k[0]; }
};

class Known {
 public:
  std::optional<int64_t> find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto found = times_.find(key);
    return found == times_.end() ? std::nullopt : std::optional(found->second);
  }
  void keep(const Key& key, int64_t fs) {
    const std::lock_guard lock(mutex_);
    if (times_.size() >= kKnownMax) times_.clear();
    times_.emplace(key, fs);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<Key, int64_t, KeyHash> times_;
};

int64_t time_alone(arch::Kernel& kernel, const arch::Chip& chip, Timer timer) {
  Diagnostic why;
  arch::Chip less = chip;
  less.sbuf.bytes_per_partition = int64_t(double(less.sbuf.bytes_per_partition) * tuned::kRoom) / 64 * 64;
  kernel.chip = &less;
  const auto program = make_unverified(kernel, why);
  if (!program) return kUnwritable;
  const auto time = timer(*program, chip);
  return time ? std::max<int64_t>(*time, 0) : kUnwritable;
}

int64_t time_of(Trial& variant, const arch::Chip& chip, Timer timer) {
  const int64_t all = time_alone(variant.kernel, chip, timer);
  if (!variant.alone || all < 0) return all;
  const int64_t one = time_alone(*variant.alone, chip, timer);
  return one < 0 ? one : std::max<int64_t>(all - one, 0);
}

// What was timed before is not again. The key has all that the time follows from.
int64_t known_time_of(Trial& variant, const Key& key, const arch::Chip& chip, Timer timer) {
  static Known known;
  if (const auto found = known.find(key)) return *found;
  const int64_t fs = time_of(variant, chip, timer);
  known.keep(key, fs);
  return fs;
}

// Which variants are worth timing: each once; of long ones the first, and that whose busiest engine has the least to
// do.
std::vector<bool> worthy(std::vector<std::optional<Trial>>& variants, const std::vector<Key>& keys, Comparison& out) {
  std::vector<std::pair<double, size_t>> order;
  bool is_long = false;
  for (size_t i = 0; i < variants.size(); ++i) {
    const auto own = keys.begin() + ptrdiff_t(i);
    const bool seen = std::find(keys.begin(), own, *own) != own;
    if (variants[i] && seen) out.fs[i] = kSameAsBefore;
    if (!variants[i] || seen) continue;
    arch::Kernel& once = variants[i]->alone ? *variants[i]->alone : variants[i]->kernel;
    is_long = is_long || once.insns.size() >= tuned::kLong;
    order.push_back({Costs(once).busiest(), i});
    out.fs[i] = kSurelySlower;
  }
  if (is_long && order.size() > 2) {
    std::stable_sort(order.begin() + 1, order.end());
    order.resize(2);
  }
  std::vector<bool> in(variants.size(), false);
  for (const auto& [busiest, i] : order) in[i] = true;
  return in;
}

// Times them one after the other; what cannot end before the best so far is left out.
Comparison race(std::vector<std::optional<Trial>>& variants, const std::vector<Key>& keys, const arch::Chip& chip,
                Timer timer) {
  Comparison out{0, std::vector<int64_t>(variants.size(), kUnwritable)};
  const std::vector<bool> in = worthy(variants, keys, out);
  int64_t best = -1;
  for (size_t i = 0; i < variants.size(); ++i) {
    if (!in[i]) continue;
    arch::Kernel& once = variants[i]->alone ? *variants[i]->alone : variants[i]->kernel;
    const auto wins = [&](double fs) {
      return best < 0 || fs < double(best) * (out.best == 0 ? 1 - tuned::kGainLeast : 1);
    };
    if (wins(Costs(once).busiest() * kFsPerNs)) out.fs[i] = known_time_of(*variants[i], keys[i], chip, timer);
    variants[i].reset();
    if (out.fs[i] >= 0 && wins(double(out.fs[i]))) best = out.fs[i], out.best = i;
  }
  return out;
}

}  // namespace

void Digest::add(uint64_t v) {
  key_[0] = std::rotl(key_[0] ^ v, 29) * 0x9e3779b97f4a7c15;
  key_[1] = ((std::rotl(key_[1], 23) + v) * 0xd6e8feb86659fd93) ^ key_[0] >> 32;
}

void Digest::add(std::string_view s) {
  add(s.size());
  for (char c : s) add(uint64_t(uint8_t(c)));
}

void Digest::add(const arch::Operand& o) {
  add(uint64_t(o.kind) << 48 | uint64_t(o.partition) << 40 | uint64_t(o.reg) << 32 | o.tensor);
  add(uint64_t(o.pattern) << 32 | o.dynamic);
  add(uint64_t(o.offset));
  add(std::bit_cast<uint64_t>(o.immediate));
}

void Digest::add(const arch::Pattern& p) {
  add(uint64_t(p.dtype) << 32 | uint64_t(p.rank) << 16 | p.partitions);
  add(uint64_t(p.partition_stride));
  for (const arch::Dim& d : p.dims) add(uint64_t(d.stride)), add(uint64_t(d.count));
  for (int64_t step : p.step) add(uint64_t(step));
}

void Digest::add(const arch::Kernel& kernel) {
  const arch::Program& p = kernel.program();
  for (const arch::Tensor& t : p.tensors) {
    add(uint64_t(t.space) << 16 | uint64_t(t.dtype) << 8 | uint64_t(t.kind));
    for (int64_t n : t.shape) add(uint64_t(n));
  }
  for (const arch::Pattern& pattern : p.patterns) add(pattern);
  for (const auto& list : p.lists) {
    add(list.size());
    for (int64_t v : list) add(uint64_t(v));
  }
  for (const arch::Dynamic& d : p.dynamics) {
    add(uint64_t(d.kind) << 40 | uint64_t(d.reg) << 32 | d.index);
    add(uint64_t(d.scale));
  }
  for (const arch::KernelInsn& w : kernel.insns) {
    add(uint64_t(w.afters) << 32 | uint64_t(w.opcode()) << 16 | uint64_t(w.engines) << 8 | uint64_t(w.repeats));
    for (size_t s = 0; s < w.info->slots.size(); ++s) add(p.operands[w.operand + s]);
    for (size_t a = 0; a < w.info->attrs.size(); ++a) add(uint64_t(p.attrs[w.attr + a]));
  }
}

Comparison fastest(std::vector<std::optional<Trial>> variants, const arch::Chip& chip, Timer timer) {
  Digest machine;
  machine.add(arch::chip_text(chip));
  machine.add(uint64_t(reinterpret_cast<uintptr_t>(timer)));
  std::vector<Key> keys;
  for (const auto& variant : variants) {
    Digest own = machine;
    if (variant) own.add(variant->kernel);
    keys.push_back(own.key());
  }
  return race(variants, keys, chip, timer);
}

bool Trial::transposes() const {
  return std::any_of(kernel.insns.begin(), kernel.insns.end(),
                     [](const arch::KernelInsn& w) { return w.info->row->name.ends_with("_transpose"); });
}

std::string Choice::text() const {
  const Choice plain;
  std::string out;
  const auto add = [&](bool differs, const std::string& text) {
    if (differs) append_text(out, cat(out.empty() ? "" : ", ", text));
  };
  add(left != plain.left, cat("left panel 1/", left));
  add(right != plain.right, cat("right panel 1/", right));
  add(strip != plain.strip, cat("strips of ", strip));
  add(deep, "depth in parts");
  add(columns != plain.columns, cat("blocks of ", columns, " columns"));
  add(transpose_engine == TransposeEngine::dma, "turned by DMA");
  add(transpose_engine == TransposeEngine::vector, "turned by vector");
  return out.empty() ? "plain" : out;
}

Chosen ChosenOnce::of(std::string unit, bool others_transpose) const {
  Chosen out =
      others_transpose && transposed ? *transposed : Chosen{{}, variants, variants.size() > 1 ? cut : Comparison()};
  out.unit = std::move(unit);
  return out;
}

std::string Chosen::text() const {
  std::string out = cat(unit, "\n");
  for (size_t i = 0; i < variants.size(); ++i) {
    const int64_t fs = comparison.fs[i];
    const std::string time = fs >= 0               ? cat(fixed(double(fs) / kFsPerNs / 1e3, 2), " us")
                             : fs == kUnwritable   ? "cannot be written, or is too long to be timed"
                             : fs == kSameAsBefore ? "the same instructions"
                                                   : "its busiest engine takes longer";
    append_text(out, cat(i == comparison.best ? "  * " : "    ", variants[i].text(), ": ", time, "\n"));
  }
  return out;
}

}  // namespace trine::compile::device
