// Finding the writes that begin a version, and renaming; see versions.h. Tensors with an address of the user's keep it,
// and so do the user's own buffers and those that carry something from one iteration of a device loop to the next or
// out of it.
#include "compile/stream/memory/versions.h"

#include <algorithm>

#include "base/text.h"
#include "compile/stream/footprint.h"
#include "compile/stream/memory/free_space.h"

namespace trine::compile {

using arch::Operand;
using arch::OperandKind;

namespace {

class Splitter {
 public:
  explicit Splitter(Kernel& kernel) : kernel_(kernel), program_(kernel.program()), count_(program_.tensors.size()) {
    now_.resize(count_);
    versions_.assign(count_, 0);
    for (uint32_t t = 0; t < count_; ++t) now_[t] = t;
    find_free();
  }

  void run() {
    for (const KernelInsn& w : kernel_.insns) {
      for (size_t s = 0; s < w.info->slots.size(); ++s)
        if (begins_version(w, s)) start(program_.operands[w.operand + s].tensor);
      over_tensors(program_, w, [&](uint32_t t) {
        if (t < count_ && body_[t] && !versions_[t]) free_[t] = 0;  // an iteration begins with what was there
      });
      rename(w);
    }
    report();
  }

 private:
  // Tensors that may be renamed: ours to allocate, and used in one loop body only or in none.
  void find_free() {
    free_.assign(count_, 0);
    body_.assign(count_, kNoInsn);
    std::vector<std::vector<uint32_t>> loops(program_.cores);  // that are open, by their first instruction
    for (uint32_t w = 0; w < kernel_.insns.size(); ++w) {
      const KernelInsn& insn = kernel_.insns[w];
      auto& open = loops[insn.core];
      if (begins_loop(insn)) open.push_back(w + 1);
      if (ends_loop(insn)) open.pop_back();
      const uint32_t body = open.empty() ? 0 : open.back();
      over_tensors(program_, insn, [&](uint32_t t) {
        const Origin& origin = kernel_.origins[t];
        free_[t] = program_.tensors[t].space != arch::Space::hbm && !origin.fixed_address && !origin.own &&
                   (body_[t] == kNoInsn || (free_[t] && body_[t] == body));
        body_[t] = body;
      });
    }
  }

  int64_t attr(const KernelInsn& w, std::string_view name) const {
    const int i = w.info->attr(name);
    return i < 0 ? -1 : program_.attrs[w.attr + static_cast<size_t>(i)];
  }

  // GpSimd's own instructions write as many elements as they find, whatever dst names; these two write all.
  static bool writes_all(const arch::Row& row) {
    return row.engines != arch::kGpsimd || row.name == "iota" || row.name == "affine_select";
  }

  bool overwrites(const KernelInsn& w, const arch::OperandSlot& slot) const {
    if (!writes_all(*w.info->row)) return false;
    if (slot.mode == arch::Mode::write) return attr(w, "oob") != static_cast<int64_t>(arch::Oob::skip);
    return slot.mode == arch::Mode::read_write &&
           attr(w, "accumulate") == static_cast<int64_t>(arch::Accumulate::overwrite);
  }

  bool begins_version(const KernelInsn& w, size_t slot) const {
    const Operand& o = program_.operands[w.operand + slot];
    if (o.kind != OperandKind::tile || !free_[o.tensor] || o.dynamic || !overwrites(w, w.info->slots[slot]))
      return false;
    const arch::Tensor& t = program_.tensors[o.tensor];
    const Region r = region_of(program_, o, {});
    if (!r.dense() || r.low > t.address || r.high < t.address + arch::bytes_per_partition(t)) return false;
    if (r.last - r.first < t.shape[0]) return false;
    int named = 0;
    over_tensors(program_, w, [&](uint32_t other) { named += other == o.tensor; });
    return named == 1;
  }

  void start(uint32_t t) {
    if (versions_[t]++ == 0) return;  // the first keeps the name
    arch::Tensor next = program_.tensors[t];
    next.name += cat("_", versions_[t]);
    while (kernel_.builder.find_tensor(next.name) >= 0) next.name += "_";
    now_[t] = kernel_.builder.add_tensor(std::move(next));
    kernel_.origins.push_back(kernel_.origins[t]);
  }

  void rename(const KernelInsn& w) {
    for (size_t s = 0; s < w.info->slots.size(); ++s) {
      Operand o = program_.operands[w.operand + s];
      if (o.kind != OperandKind::tile) continue;
      o.tensor = now_[o.tensor];
      if (o.dynamic) {
        const arch::Dynamic d = program_.dynamics[o.dynamic - 1];
        Operand index = d.kind == arch::DynamicKind::reg ? Operand() : program_.operands[d.index];
        if (index.kind == OperandKind::tile && now_[index.tensor] != index.tensor) {
          index.tensor = now_[index.tensor];
          o.dynamic = kernel_.builder.dynamic(d.kind, index, d.scale);
        }
      }
      program_.operands[w.operand + s] = o;
    }
  }

  void report() {
    std::vector<uint32_t> many;
    for (uint32_t t = 0; t < count_; ++t)
      if (versions_[t] > 1) many.push_back(t);
    if (many.empty()) return;
    std::stable_sort(many.begin(), many.end(), [&](uint32_t a, uint32_t b) { return versions_[a] > versions_[b]; });
    std::string names;
    for (size_t i = 0; i < std::min<size_t>(3, many.size()); ++i) {
      const uint32_t line = kernel_.origins[many[i]].line;
      names += cat(i ? ", " : "", program_.tensors[many[i]].name);
      if (line)
        names += cat(" (", program_.strings[program_.lines[line - 1].file], ":", program_.lines[line - 1].line, ")");
      names += cat(" ", versions_[many[i]], " times");
    }
    kernel_.messages.push_back(cat("buffers: ", many.size(), many.size() == 1 ? " tensor is" : " tensors are",
                                   " filled again and again, each time in the next free place: ", names,
                                   many.size() > 3 ? ", …" : ""));
  }

  Kernel& kernel_;
  arch::Program& program_;
  const size_t count_;  // of tensors as recorded
  std::vector<char> free_;
  std::vector<uint32_t>
      body_;  // of each tensor: 1 + the instruction that begins the loop around its uses, 0 outside loops
  std::vector<uint32_t> now_;  // the version that stands for each
  std::vector<uint32_t> versions_;
};

}  // namespace

void split_versions(Kernel& kernel) { Splitter(kernel).run(); }

}  // namespace trine::compile
