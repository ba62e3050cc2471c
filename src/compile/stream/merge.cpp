// Tiles by their recipe, line by line from the last one back; see merge.h. A tile has a recipe when it is written
// before it is read, by instructions that do nothing else: their rows, attributes and operands, each source by its own
// recipe or, where it has none, by how often it was written so far.
#include "compile/stream/merge.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>

#include "base/text.h"
#include "compile/stream/dependences.h"
#include "compile/stream/memory/free_space.h"

namespace trine::compile {

using arch::Mode;
using arch::Operand;
using arch::OperandKind;
using arch::Space;

namespace {

struct Tile {
  bool plain = false;  // it has a recipe
  uint32_t first_write = kNoInsn, last_write = 0, first_read = kNoInsn, last_read = 0;
  bool moved = true;            // it is loaded, transposed or copied, and nothing else
  uint32_t same = 0;            // the first tile of this recipe, maybe itself
  uint32_t stands = 0;          // the one of them that may stand for it
  std::vector<uint32_t> insns;  // that write it
  std::vector<uint32_t> readers;
  std::vector<uint32_t> others;  // later tiles that it may stand for
  std::string recipe;
};

// A recipe with several tiles, from the first one's making to the last one's last reader.
struct Class {
  uint32_t first = kNoInsn, last = 0;
  int64_t bytes = 0;
  std::vector<uint32_t> others;  // but the first tile
};

class Merger {
 public:
  explicit Merger(Kernel& kernel) : kernel_(kernel), program_(kernel.program()) {}

  void run() {
    note_uses();
    find_recipes();
    choose();
    if (dropped_) apply();
  }

 private:
  uint32_t storage(uint32_t tensor) const {
    const int32_t alias = program_.tensors[tensor].alias;
    return alias < 0 ? tensor : static_cast<uint32_t>(alias);
  }
  // Calls f(operand, slot) for each tile.
  template <class F>
  void over_tiles(const KernelInsn& w, F f) const {
    for (size_t s = 0; s < w.info->slots.size(); ++s)
      if (const Operand& o = program_.operands[w.operand + s]; o.kind == OperandKind::tile) f(o, w.info->slots[s]);
  }

  // It does nothing but write one tile, whenever it runs.
  bool pure(const KernelInsn& w) const {
    int written = 0;
    bool is = !w.afters && !w.fixed_order && w.unit() != arch::Unit::rendezvous && !keeps_sum(program_, w) &&
              !keeps_random(w);
    for (size_t s = 0; s < w.info->slots.size(); ++s) is &= program_.operands[w.operand + s].kind != OperandKind::reg;
    over_tiles(w, [&](const Operand& o, const arch::OperandSlot& slot) {
      is &= !o.dynamic && slot.mode != Mode::may_write;
      written += slot.writes();
    });
    return is && written == 1;
  }

  void note_uses() {
    tiles_.resize(program_.tensors.size());
    for (uint32_t t = 0; t < tiles_.size(); ++t) {
      tiles_[t].plain = program_.tensors[t].space != Space::hbm && !kernel_.origins[t].fixed_address;
      tiles_[t].same = tiles_[t].stands = t;
    }
    std::vector<char> waited_for(kernel_.insns.size());
    for (const uint32_t id : kernel_.afters) waited_for[id] = 1;
    for (uint32_t w = 0; w < kernel_.insns.size(); ++w) {
      const KernelInsn& insn = kernel_.insns[w];
      const bool is_pure = pure(insn) && !waited_for[w];
      over_tiles(insn, [&](const Operand& o, const arch::OperandSlot& slot) {
        Tile& t = tiles_[o.tensor];
        if (slot.writes()) {
          t.plain &= is_pure;
          t.first_write = std::min(t.first_write, w);
          t.last_write = w;
          t.insns.push_back(w);
        } else {
          t.first_read = std::min(t.first_read, w);
          t.last_read = w;
          t.readers.push_back(w);
        }
        if (o.dynamic && program_.dynamics[o.dynamic - 1].kind != arch::DynamicKind::reg)
          tiles_[program_.operands[program_.dynamics[o.dynamic - 1].index].tensor].plain = false;
      });
    }
    for (Tile& t : tiles_) t.plain &= t.first_write < t.first_read && t.last_write < t.first_read && !t.readers.empty();
  }

  void find_recipes() {
    std::unordered_map<std::string, uint32_t> known;
    std::map<std::vector<uint32_t>, uint32_t> last;  // the last tile that a call made
    std::vector<uint32_t> times(tiles_.size());      // written so far
    for (uint32_t w = 0; w < kernel_.insns.size(); ++w) {
      const KernelInsn& insn = kernel_.insns[w];
      uint32_t written = kNoInsn;
      over_tiles(insn, [&](const Operand& o, const arch::OperandSlot& slot) {
        if (slot.writes()) written = o.tensor;
      });
      if (written != kNoInsn && tiles_[written].plain) add_step(insn, written, times);
      over_tiles(insn, [&](const Operand& o, const arch::OperandSlot& slot) {
        if (slot.writes()) ++times[storage(o.tensor)];
      });
      if (written == kNoInsn || !tiles_[written].plain || tiles_[written].last_write != w) continue;
      Tile& t = tiles_[written];
      t.same = known.try_emplace(std::move(t.recipe), written).first->second;
      // What is computed leaves only the loops around it that make it alike each time.
      uint32_t& before = last.try_emplace(call_of(insn), written).first->second;
      if (t.moved)
        t.stands = t.same;
      else if (tiles_[before].same == t.same)
        t.stands = tiles_[before].stands;
      before = written;
      if (t.stands != written) tiles_[t.stands].others.push_back(written);
    }
  }

  // Which call of the source it is, as far as lines tell: a line may have several, which differ in where their operands
  // were made, or what those were made of: a row that reaches all partitions is a load, a multiply and a copy.
  std::vector<uint32_t> call_of(const KernelInsn& w) const {
    std::vector<uint32_t> out;
    add_call(w, 0, out);
    return out;
  }
  void add_call(const KernelInsn& w, int depth, std::vector<uint32_t>& out) const {
    constexpr int kDeep = 2;
    out.insert(out.end(), {w.line, w.opcode()});
    over_tiles(w, [&](const Operand& o, const arch::OperandSlot& slot) {
      if (slot.writes()) return;
      const bool is_hbm = program_.tensors[o.tensor].space == Space::hbm;
      out.push_back(is_hbm ? storage(o.tensor) : kernel_.origins[o.tensor].line);
      if (const auto& makers = tiles_[o.tensor].insns; !is_hbm && depth < kDeep && !makers.empty())
        add_call(kernel_.insns[makers[0]], depth + 1, out);
    });
  }

  bool moves(const KernelInsn& w) const {
    const std::string_view name = w.info->row->name;
    if (name == "memset") return true;  // what a masked load leaves free
    if (name == "dma_copy" || name == "dma_transpose" || name == "nc_transpose") return true;
    if (name == "nc_matmul") return program_.attrs[w.attr + static_cast<size_t>(w.info->attr("is_transpose"))];
    if (name != "tensor_copy") return false;
    const Tile& source = tiles_[program_.operands[w.operand + static_cast<size_t>(w.info->slot("src"))].tensor];
    return source.plain && source.moved;
  }

  void add_step(const KernelInsn& w, uint32_t written, const std::vector<uint32_t>& times) {
    std::string& recipe = tiles_[written].recipe;
    tiles_[written].moved &= moves(w);
    const auto add = [&](auto v) { recipe.append(reinterpret_cast<const char*>(&v), sizeof v); };
    if (recipe.empty()) {
      const arch::Tensor& t = program_.tensors[written];
      add(t.space), add(t.dtype), add(t.core);
      for (const int64_t n : t.shape) add(n);
    }
    add(w.opcode()), add(w.engines), add(w.attr);
    for (size_t s = 0; s < w.info->slots.size(); ++s) {
      const Operand& o = program_.operands[w.operand + s];
      add(o.kind);
      if (o.kind == OperandKind::immediate) add(o.immediate);
      if (o.kind != OperandKind::tile) continue;
      add(o.pattern), add(o.offset), add(o.partition);
      if (o.tensor == written) continue;
      const bool plain = tiles_[o.tensor].plain;
      add(plain ? tiles_[o.tensor].same : storage(o.tensor));
      add(plain ? kNoInsn : times[storage(o.tensor)]);
    }
  }

  // Lines from the last back, so that what only feeds a merged tile is not merged for its own sake.
  void choose() {
    gone_.assign(kernel_.insns.size(), 0);
    using Line = std::tuple<uint32_t, int64_t>;  // where a tile is made, and its size
    std::map<uint32_t, Class> classes;           // by the first tile
    for (uint32_t t = 0; t < tiles_.size(); ++t) {
      if (!tiles_[t].plain || tiles_[t].stands == t || program_.tensors[t].space != Space::sbuf) continue;
      Class& c = classes[tiles_[t].stands];
      c.last = std::max(c.last, tiles_[t].last_read);
      c.others.push_back(t);
    }
    std::map<Line, std::vector<Class>> lines;
    for (auto& [t, c] : classes) {
      c.first = tiles_[t].first_write;
      c.last = std::max(c.last, tiles_[t].last_read);
      c.bytes = arch::bytes_per_partition(program_.tensors[t]);
      lines[{kernel_.origins[t].line, c.bytes}].push_back(std::move(c));
    }
    std::vector<std::vector<Class>*> order;
    for (auto& [line, all] : lines) order.push_back(&all);
    std::stable_sort(order.begin(), order.end(),
                     [](const auto* a, const auto* b) { return a->front().first > b->front().first; });
    for (const std::vector<Class>* line : order) consider(*line);
  }

  void consider(const std::vector<Class>& line) {
    std::vector<std::pair<uint32_t, int64_t>> with = staying_;
    bool wanted = false;
    for (const Class& c : line) {
      for (const uint32_t t : c.others) wanted |= is_read(t);
      with.emplace_back(c.first, c.bytes);
      with.emplace_back(c.last + 1, -c.bytes);
    }
    std::sort(with.begin(), with.end());
    int64_t now = 0, most = 0;
    for (const auto& [at, bytes] : with) most = std::max(most, now += bytes);
    if (!wanted || most > kernel_.chip->sbuf.bytes_per_partition) return;
    staying_ = std::move(with);
    for (const Class& c : line)
      for (const uint32_t t : c.others) merged_.push_back(t), drop(t);
  }

  bool is_read(uint32_t t) const {
    const auto& readers = tiles_[t].readers;
    return std::any_of(readers.begin(), readers.end(), [&](uint32_t w) { return !gone_[w]; });
  }
  // By its own readers, or by those of tiles that it stands or may stand for.
  bool is_needed(uint32_t t) const {
    const auto& others = tiles_[t].others;
    return is_read(t) || std::any_of(others.begin(), others.end(), [&](uint32_t other) { return is_read(other); });
  }

  // Nobody makes it any more, nor what only its makers read.
  void drop(uint32_t tile) {
    std::vector<uint32_t> open{tile};
    while (!open.empty()) {
      const uint32_t t = open.back();
      open.pop_back();
      for (const uint32_t w : tiles_[t].insns) {
        if (std::exchange(gone_[w], 1)) continue;
        ++dropped_;
        over_tiles(kernel_.insns[w], [&](const Operand& o, const arch::OperandSlot& slot) {
          if (!slot.writes() && tiles_[o.tensor].plain && !is_needed(o.tensor)) open.push_back(o.tensor);
        });
      }
    }
  }

  void apply() {
    for (const uint32_t t : merged_)
      for (const uint32_t w : tiles_[t].readers)
        for (size_t s = 0; s < kernel_.insns[w].info->slots.size(); ++s) {
          Operand& o = program_.operands[kernel_.insns[w].operand + s];
          if (o.kind == OperandKind::tile && o.tensor == t) o.tensor = tiles_[t].stands;
        }
    std::vector<uint32_t> moved(kernel_.insns.size());
    uint32_t left = 0;
    for (uint32_t w = 0; w < kernel_.insns.size(); ++w) {
      moved[w] = left;
      if (!gone_[w]) kernel_.insns[left++] = kernel_.insns[w];
    }
    kernel_.insns.resize(left);
    for (uint32_t& id : kernel_.afters) id = moved[id];
    kernel_.messages.push_back(cat("merged: ", dropped_,
                                   " instructions would make again what is in SBUF already, and are "
                                   "left out, as Neuron's tensorizer does"));
  }

  Kernel& kernel_;
  arch::Program& program_;
  std::vector<Tile> tiles_;
  std::vector<std::pair<uint32_t, int64_t>> staying_;  // when tiles that are merged come and go, bytes per partition
  std::vector<uint32_t> merged_;
  std::vector<char> gone_;  // of each instruction
  size_t dropped_ = 0;
};

}  // namespace

void merge_equal(Kernel& kernel) { Merger(kernel).run(); }

}  // namespace trine::compile
