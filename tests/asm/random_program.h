// Random programs that pass check_structure(), made from the rows' specs alone; for round-trip tests and fuzz seeds.
// Built in the order of the text, so that assembling the text gives the very same pools.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "arch/program/builder.h"
#include "arch/sequencer.h"

namespace trine::arch {

class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {}

  // One stream per engine that some row runs on; each row at least once on every engine it may run on, when `all`.
  Program make(bool all) {
    b_ = Builder(chance(0.8) ? "p" : "odd name \"\\\x01");
    if (chance(0.5)) b_.program().chip = "trn2";
    if (chance(0.3)) b_.program().producer = "tests, seeded";
    b_.program().cores = static_cast<uint8_t>(up_to(1, 2));
    make_tensors();
    for (int e = 0; e < kEngineCount; ++e) {
      const auto engine = static_cast<Engine>(e);
      if (!all && chance(0.4)) continue;
      stream_ = b_.stream(static_cast<int>(up_to(0, b_.program().cores - 1)), engine);
      make_stream(engine, all);
    }
    return b_.take();
  }

 private:
  bool chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }
  int64_t up_to(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  void make_tensors() {
    for (int i = 0; i < 9; ++i) {
      Tensor t;
      t.name = std::string(1, static_cast<char>('a' + i)) + (chance(0.2) ? "1 \xc3\xa9#" : "");
      if (chance(0.1)) t.name = "r" + std::to_string(i);  // looks like a register, so it is quoted
      t.space = static_cast<Space>(i % 3);
      t.dtype = static_cast<Dtype>(up_to(0, static_cast<int>(Dtype::chip_count) - 1));
      for (int64_t d = t.space == Space::hbm ? up_to(0, 4) : up_to(1, 4); d > 0; --d)
        t.shape.push_back(up_to(1, t.shape.empty() ? 40 : 4));
      if (t.space == Space::hbm) {
        t.address = chance(0.7) ? b_.allocator.next(t.space, 0) : up_to(0, 1 << 20) * 256;
        if (chance(0.3)) t.kind = chance(0.5) ? TensorKind::input : TensorKind::output;
        if (t.kind == TensorKind::scratch && chance(0.4)) {
          add_constant(std::move(t));
          continue;
        }
      } else {
        t.core = static_cast<uint8_t>(up_to(0, b_.program().cores - 1));
        t.partition = static_cast<int32_t>(up_to(0, 100));
        t.address = up_to(0, 1 << 16);
      }
      b_.add_tensor(std::move(t));
    }
  }

  void add_constant(Tensor t) {
    std::vector<std::byte> bytes(chance(0.2) ? 0 : static_cast<size_t>(tensor_bytes(t)));
    const bool same = chance(0.5);
    for (auto& byte : bytes) byte = static_cast<std::byte>(same ? 0x3f : up_to(0, 255));
    b_.add_constant(std::move(t), bytes);
  }

  void make_stream(Engine engine, bool all) {
    bodies_ = {{0}};
    iterations_.clear();
    std::vector<const RowInfo*> mine;
    for (const RowInfo& info : rows())
      if (info.row->engines & bit(engine)) mine.push_back(&info);
    if (mine.empty()) return;
    std::shuffle(mine.begin(), mine.end(), random_);
    const size_t n = all ? mine.size() : static_cast<size_t>(up_to(0, 8));
    for (size_t i = 0; i < n; ++i) {
      const RowInfo& info = *mine[i % mine.size()];
      if (info.row->opcode != kOpLoop && info.row->opcode != kOpEndLoop) emit(info);
      if (iterations_.size() < kLoopDepthMax && chance(0.2)) emit(*row_by_opcode(kOpLoop));
      if (!iterations_.empty() && chance(0.15)) emit(*row_by_opcode(kOpEndLoop));
    }
    while (!iterations_.empty()) emit(*row_by_opcode(kOpEndLoop));
  }

  void emit(const RowInfo& info) {
    Draft d(info);
    const bool loop = info.row->opcode == kOpLoop, end = info.row->opcode == kOpEndLoop;
    if (end) iterations_.pop_back();
    for (size_t s = 0; s < info.slots.size(); ++s)
      if (!info.slots[s].optional || chance(0.6)) d.operands[s] = operand(info, info.slots[s]);
    for (size_t a = 0; a < info.attrs.size(); ++a)
      if (info.attrs[a].required || chance(0.6)) d.attrs[a] = attr(info.attrs[a]);
    for (int64_t n = chance(0.4) ? up_to(1, 3) : 0; n > 0; --n)
      d.waits.push_back({static_cast<uint16_t>(up_to(0, 300)), static_cast<WaitOp>(up_to(0, 1)), b_.steps(steps(50)),
                         up_to(-5, 500)});
    for (int64_t n = chance(0.4) ? up_to(1, 3) : 0; n > 0; --n)
      d.updates.push_back({static_cast<uint16_t>(up_to(0, 300)), static_cast<UpdateOp>(up_to(0, 2)), up_to(-5, 500)});
    if (chance(0.5)) d.line = b_.line(chance(0.5) ? "kernel.py" : "a b/c.py", static_cast<uint32_t>(up_to(0, 99)));
    if (end) bodies_.pop_back();
    const uint32_t pc = b_.emit(stream_, d);
    bodies_.back().push_back(pc + 1);
    if (loop) {
      iterations_.push_back(1);
      bodies_.push_back({pc + 1});
      bodies_[bodies_.size() - 2].pop_back();
    }
  }

  std::array<int64_t, kLoopDepthMax> steps(int64_t limit) {
    std::array<int64_t, kLoopDepthMax> out{};
    for (size_t d = 0; d < iterations_.size(); ++d)
      if (chance(0.4)) out[d] = up_to(-limit, limit);
    return out;
  }

  Operand operand(const RowInfo& info, const OperandSlot& slot) {
    std::vector<int> tensors;
    for (size_t t = 0; t < b_.program().tensors.size(); ++t)
      if (slot.kinds & (1u << static_cast<int>(b_.program().tensors[t].space))) tensors.push_back(static_cast<int>(t));
    const bool imm = slot.kinds & kImm, reg = slot.kinds & kReg;
    if (!tensors.empty() && !((imm || reg) && chance(0.4)))
      return tile(tensors[static_cast<size_t>(up_to(0, static_cast<int64_t>(tensors.size()) - 1))], true);
    if (reg && (!imm || chance(0.5))) return register_operand(static_cast<int>(up_to(0, kRegisterCount - 1)));
    if (info.row->unit == Unit::control) return immediate_operand(static_cast<double>(up_to(0, 1000)));
    constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
    constexpr double kOdd[] = {0.1, -0.0, 1e300, -2.5, kInf, kNan};
    return immediate_operand(kOdd[up_to(0, 5)]);
  }

  Operand tile(int index, bool may_gather) {
    const Tensor& t = b_.program().tensors[static_cast<size_t>(index)];
    const auto tensor = static_cast<uint32_t>(index);
    if (chance(0.2))
      if (const auto whole = whole_pattern(t, t.dtype)) return b_.tile(tensor, *whole);
    uint32_t dynamic = 0;
    if (chance(0.2))
      dynamic =
          b_.dynamic({.kind = DynamicKind::reg, .reg = static_cast<uint8_t>(up_to(0, 63)), .scale = up_to(-9, 9)});
    else if (may_gather && chance(0.2)) {
      const Operand gathered = tile(static_cast<int>(up_to(0, 8)), false);
      dynamic = b_.dynamic(chance(0.5) ? DynamicKind::rows : DynamicKind::free, gathered, up_to(-900, 900));
    }
    Pattern p;
    p.dtype = chance(0.8) ? t.dtype : static_cast<Dtype>(up_to(0, static_cast<int>(Dtype::chip_count) - 1));
    p.partitions = static_cast<uint16_t>(up_to(1, 128));
    if (t.space == Space::hbm && chance(0.8)) p.partition_stride = up_to(-5000, 5000);
    p.rank = static_cast<uint8_t>(up_to(0, kFreeDimsMax));
    for (size_t d = 0; d < p.rank; ++d) p.dims[d] = {up_to(-70, 70), static_cast<uint32_t>(up_to(1, 70))};
    p.step = steps(1000);
    return b_.tile(tensor, p, up_to(-5, 5000), t.space == Space::hbm ? 0 : static_cast<int>(up_to(0, 127)), dynamic);
  }

  int64_t attr(const AttrSlot& slot) {
    switch (slot.type) {
      case AttrType::boolean:
        return up_to(0, 1);
      case AttrType::real:
        return std::bit_cast<int64_t>(static_cast<double>(up_to(-1000, 1000)) / 7);
      case AttrType::enumeration:
        return up_to(0, static_cast<int64_t>(slot.set->members.size()) - 1);
      case AttrType::ints: {
        std::vector<int64_t> values(static_cast<size_t>(up_to(0, 5)));
        for (int64_t& v : values) v = up_to(-9, 300);
        return b_.list(values);
      }
      case AttrType::string:
        return b_.string(chance(0.3) ? "" : chance(0.5) ? "word" : "two \"words\" # \n");
      case AttrType::label:
        return bodies_.back()[static_cast<size_t>(up_to(0, static_cast<int64_t>(bodies_.back().size()) - 1))];
      case AttrType::integer:
        break;
    }
    return up_to(-3, 1000);
  }

  std::mt19937_64 random_;
  Builder b_;
  size_t stream_ = 0;
  std::vector<int> iterations_;
  std::vector<std::vector<uint32_t>> bodies_;  // of each open loop body, the targets of a jump
};

}  // namespace trine::arch
