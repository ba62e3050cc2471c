// The earliest instruction that fits goes next; see reorder.h. What depends on what comes from tensors apart from each
// other, as if each had an address of its own.
#include "compile/stream/memory/reorder.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "compile/stream/dependences.h"
#include "compile/stream/memory/free_space.h"

namespace trine::compile {

using arch::Space;

namespace {

// Gives every open tensor bytes of its own for as long as it lives; returns the size of the two memories.
class Apart {
 public:
  explicit Apart(Kernel& kernel) : kernel_(kernel) {
    const arch::Chip& chip = *kernel.chip;
    sbuf = chip.sbuf.bytes_per_partition;
    psum = chip.psum.banks * chip.psum.bank_bytes;
    auto& tensors = kernel.program().tensors;
    for (size_t t = 0; t < tensors.size(); ++t) {
      before_.push_back(tensors[t].address);
      if (tensors[t].space == Space::hbm || kernel.origins[t].fixed_address) continue;
      int64_t& end = tensors[t].space == Space::sbuf ? sbuf : psum;
      tensors[t].address = end;
      end += arch::bytes_per_partition(tensors[t]);
    }
  }
  ~Apart() {
    for (size_t t = 0; t < before_.size(); ++t) kernel_.program().tensors[t].address = before_[t];
  }
  Apart(const Apart&) = delete;
  Apart& operator=(const Apart&) = delete;

  int64_t sbuf = 0, psum = 0;

 private:
  Kernel& kernel_;
  std::vector<int64_t> before_;
};

class Orderer {
 public:
  Orderer(Kernel& kernel, int core, int64_t limit) : kernel_(kernel), program_(kernel.program()), limit_(limit) {
    for (uint32_t w = 0; w < kernel.insns.size(); ++w)
      if (kernel.insns[w].core == core) slots_.push_back(w);
    uses_.assign(program_.tensors.size(), 0);
    for (const uint32_t w : slots_) over_psum(w, [&](uint32_t t) { ++uses_[t]; });
    begun_.assign(program_.tensors.size(), 0);
    link();
  }

  bool run() {
    for (const uint32_t w : slots_)
      if (!missing_[w]) ready_.push(w);
    while (!ready_.empty()) {
      const uint32_t w = ready_.top();
      ready_.pop();
      if (live_ + demand(w) > limit_)
        waiting_.push_back(w);
      else
        take(w);
    }
    if (order_.size() != slots_.size()) return false;
    apply();
    return true;
  }

 private:
  // Calls f(tensor) once for each PSUM tensor of ours that the instruction names.
  template <class F>
  void over_psum(uint32_t w, F f) const {
    std::vector<uint32_t> named;
    over_tensors(program_, kernel_.insns[w], [&](uint32_t t) {
      const bool ours = program_.tensors[t].space == Space::psum && !kernel_.origins[t].fixed_address;
      if (ours && std::find(named.begin(), named.end(), t) == named.end()) named.push_back(t);
    });
    for (const uint32_t t : named) f(t);
  }

  void link() {
    const Apart apart(kernel_);
    const Edges edges = find_edges(kernel_, apart.sbuf, apart.psum);
    missing_.assign(kernel_.insns.size(), 0);
    next_.resize(kernel_.insns.size());
    for (const uint32_t w : slots_)
      for (const Edge& e : edges.before(w)) {
        next_[e.insn].push_back(w);
        ++missing_[w];
      }
    // A fence comes after all before it; edges say the rest.
    std::vector<uint32_t> open;
    for (const uint32_t w : slots_) {
      if (!is_fence(kernel_.insns[w])) {
        open.push_back(w);
        continue;
      }
      for (const uint32_t earlier : open) next_[earlier].push_back(w);
      missing_[w] += static_cast<uint32_t>(open.size());
      open.clear();
    }
  }

  int64_t bytes(uint32_t t) const { return arch::bytes_per_partition(program_.tensors[t]); }
  int64_t demand(uint32_t w) const {
    int64_t sum = 0;
    over_psum(w, [&](uint32_t t) { sum += begun_[t] ? 0 : bytes(t); });
    return sum;
  }

  void take(uint32_t w) {
    order_.push_back(w);
    bool freed = false;
    over_psum(w, [&](uint32_t t) {
      if (!begun_[t]) live_ += bytes(t);
      begun_[t] = 1;
      if (--uses_[t]) return;
      live_ -= bytes(t);
      freed = true;
    });
    for (const uint32_t n : next_[w])
      if (!--missing_[n]) ready_.push(n);
    if (!freed) return;
    for (const uint32_t n : waiting_) ready_.push(n);
    waiting_.clear();
  }

  void apply() {
    std::vector<uint32_t> moved(kernel_.insns.size());
    std::iota(moved.begin(), moved.end(), 0u);
    const std::vector<KernelInsn> insns = kernel_.insns;
    for (size_t i = 0; i < slots_.size(); ++i) {
      kernel_.insns[slots_[i]] = insns[order_[i]];
      moved[order_[i]] = slots_[i];
    }
    for (uint32_t& id : kernel_.afters) id = moved[id];
  }

  Kernel& kernel_;
  const arch::Program& program_;
  const int64_t limit_;
  int64_t live_ = 0;  // bytes per partition
  std::vector<uint32_t> slots_, order_, waiting_;
  std::vector<uint32_t> uses_, missing_;
  std::vector<char> begun_;
  std::vector<std::vector<uint32_t>> next_;
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready_;
};

}  // namespace

bool reorder_for_psum(Kernel& kernel, int core, int64_t limit) { return Orderer(kernel, core, limit).run(); }

}  // namespace trine::compile
