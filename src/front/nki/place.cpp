// Lifetimes and addresses; see place.h.
#include "front/nki/place.h"

#include <algorithm>

#include "base/text.h"

namespace trine::front {

using arch::Operand;
using arch::OperandKind;
using arch::Space;
using arch::Tensor;

namespace {

constexpr int64_t kSbufStep = 64;  // bytes
constexpr uint32_t kNever = UINT32_MAX;

struct Life {
  uint32_t tensor = 0;
  uint32_t first = kNever, last = 0;  // works, both included
  int64_t bytes = 0;                  // per partition
};

// The works of a loop count as one: what one iteration leaves, the next may read.
std::vector<Life> lives_of(Kernel& kernel) {
  const arch::Program& p = kernel.program();
  std::vector<Life> lives(p.tensors.size());
  std::vector<uint32_t> from(kernel.works.size()), to(kernel.works.size());
  std::vector<int> depth(p.cores);
  std::vector<uint32_t> begin(p.cores);
  std::vector<std::vector<uint32_t>> inside(p.cores);
  for (uint32_t w = 0; w < kernel.works.size(); ++w) {
    const Work& work = kernel.works[w];
    const size_t c = work.core;
    from[w] = to[w] = w;
    if (begins_loop(work) && depth[c]++ == 0) begin[c] = w, inside[c].clear();
    if (!depth[c]) continue;
    from[w] = begin[c];
    inside[c].push_back(w);
    if (ends_loop(work) && --depth[c] == 0)
      for (const uint32_t i : inside[c]) to[i] = w;
  }
  const auto use = [&](const Operand& o, uint32_t w) {
    Life& life = lives[o.tensor];
    life.first = std::min(life.first, from[w]);
    life.last = std::max(life.last, to[w]);
  };
  for (uint32_t w = 0; w < kernel.works.size(); ++w)
    for (size_t s = 0; s < kernel.works[w].info->slots.size(); ++s) {
      const Operand& o = p.operands[kernel.works[w].operand + s];
      if (o.kind != OperandKind::tile) continue;
      use(o, w);
      if (o.dynamic && p.dynamics[o.dynamic - 1].kind != arch::DynamicKind::reg)
        use(p.operands[p.dynamics[o.dynamic - 1].index], w);
    }
  for (uint32_t t = 0; t < lives.size(); ++t) {
    lives[t].tensor = t;
    lives[t].bytes = p.tensors[t].space == Space::hbm ? 0 : arch::bytes_per_partition(p.tensors[t]);
  }
  return lives;
}

// One memory of one core.
class Shelf {
 public:
  Shelf(int64_t limit, int64_t step, int64_t bank) : limit_(limit), step_(step), bank_(bank) {}

  void reserve(const Life& life, int64_t address) { fixed_.push_back({address, address + life.bytes, life}); }

  // The next free place after the last one taken, or -1.
  int64_t take(const Life& life) {
    std::erase_if(live_, [&](const Block& b) { return b.life.last < life.first; });
    std::vector<Block> taken = live_;
    for (const Block& b : fixed_)
      if (b.life.first <= life.last && life.first <= b.life.last) taken.push_back(b);
    std::sort(taken.begin(), taken.end(), [](const Block& a, const Block& b) { return a.low < b.low; });
    int64_t at = find(taken, cursor_, limit_, life.bytes);
    if (at < 0) at = find(taken, 0, limit_, life.bytes);
    if (at < 0) return -1;
    live_.push_back({at, at + life.bytes, life});
    cursor_ = at + life.bytes;
    return at;
  }

  std::vector<Life> living(const Life& at) const {
    std::vector<Life> out;
    for (const auto* list : {&live_, &fixed_})
      for (const Block& b : *list)
        if (b.life.first <= at.first && at.first <= b.life.last) out.push_back(b.life);
    return out;
  }
  int64_t limit() const { return limit_; }

 private:
  struct Block {
    int64_t low = 0, high = 0;
    Life life;
  };

  int64_t align(int64_t at, int64_t bytes) const {
    at = (at + step_ - 1) / step_ * step_;
    // What fits into a bank stays inside one.
    if (bank_ && (at % bank_) + bytes > bank_) at = (at + bank_ - 1) / bank_ * bank_;
    return at;
  }

  int64_t find(const std::vector<Block>& taken, int64_t from, int64_t to, int64_t bytes) const {
    int64_t at = align(from, bytes);
    for (const Block& b : taken) {
      if (b.high <= at) continue;
      if (b.low >= at + bytes) break;
      at = align(b.high, bytes);
    }
    return at + bytes <= to ? at : -1;
  }

  int64_t limit_, step_, bank_;
  int64_t cursor_ = 0;
  std::vector<Block> live_, fixed_;
};

Complaint does_not_fit(Kernel& kernel, const Shelf& shelf, const Life& life) {
  const arch::Program& p = kernel.program();
  const Tensor& t = p.tensors[life.tensor];
  std::vector<Life> living = shelf.living(life);
  int64_t used = 0;
  for (const Life& l : living) used += l.bytes;
  std::stable_sort(living.begin(), living.end(), [](const Life& a, const Life& b) { return a.bytes > b.bytes; });
  std::string largest;
  const auto line_of = [&](uint32_t line) {
    return line ? cat(" (", p.strings[p.lines[line - 1].file], ":", p.lines[line - 1].line, ")") : std::string();
  };
  for (size_t i = 0; i < std::min<size_t>(3, living.size()); ++i)
    largest += cat(i ? ", " : "", p.tensors[living[i].tensor].name, " ", living[i].bytes,
                   line_of(kernel.origins[living[i].tensor].line));
  Complaint c;
  c.code = Code::out_of_memory;
  c.rule = t.space == Space::sbuf ? "sbuf capacity" : "psum capacity";
  c.found = cat("`", t.name, "` needs ", life.bytes, " bytes per partition of ", name(t.space), " while ", used,
                " are in use; largest (bytes per partition): ", largest);
  c.expected = cat("at most ", shelf.limit(), " bytes per partition in use at once");
  c.fix = "use smaller tiles, or fewer that are needed at once";
  if (const uint32_t line = kernel.origins[life.tensor].line) {
    c.file = p.strings[p.lines[line - 1].file];
    c.line = p.lines[line - 1].line;
  }
  return c;
}

}  // namespace

std::optional<Complaint> place(Kernel& kernel) {
  arch::Program& p = kernel.program();
  const auto& chip = *kernel.chip;
  std::vector<Life> lives = lives_of(kernel);
  std::vector<Shelf> sbuf, psum;
  for (int c = 0; c < p.cores; ++c) {
    sbuf.emplace_back(chip.sbuf.bytes_per_partition - chip.sbuf.reserved_bytes_per_partition, kSbufStep, 0);
    psum.emplace_back(chip.psum.banks * chip.psum.bank_bytes, chip.psum.bank_bytes, chip.psum.bank_bytes);
  }
  const auto shelf_of = [&](const Tensor& t) -> Shelf& { return (t.space == Space::sbuf ? sbuf : psum)[t.core]; };
  std::vector<Life> open;
  for (const Life& life : lives) {
    const Tensor& t = p.tensors[life.tensor];
    if (t.space == Space::hbm || life.first == kNever) continue;
    if (kernel.origins[life.tensor].placed)
      shelf_of(t).reserve(life, t.address);
    else
      open.push_back(life);
  }
  std::stable_sort(open.begin(), open.end(), [](const Life& a, const Life& b) { return a.first < b.first; });
  for (const Life& life : open) {
    Tensor& t = p.tensors[life.tensor];
    const int64_t at = shelf_of(t).take(life);
    if (at < 0) return does_not_fit(kernel, shelf_of(t), life);
    t.address = at;
  }
  return std::nullopt;
}

}  // namespace trine::front
