// Bytes as choices: assembly text of a program whose instructions mostly pass the verifier. A byte string thus reaches
// every row's exec with operands of many shapes, which mutated text hardly ever does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/row.h"
#include "base/text.h"

namespace trine {

class ExactText {
 public:
  ExactText(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  std::string text() {
    cores_ = 1 + pick(8) / 7;
    out_ = cat("program fuzz\ncores ", cores_, "\n");
    tensors();
    for (int core = 0; core < cores_; ++core)
      for (int e = 0; e < arch::kEngineCount; ++e)
        if (pick(3)) stream(core, static_cast<arch::Engine>(e));
    return out_;
  }

 private:
  int next() { return at_ < size_ ? data_[at_++] : 0; }
  int pick(int n) { return next() % n; }
  template <class T, size_t N>
  const T& pick(const T (&of)[N]) {
    return of[static_cast<size_t>(pick(static_cast<int>(N)))];
  }

  void tensors() {
    static constexpr std::string_view kDtypes[] = {"f32", "bf16", "f16", "f8e4m3fn",  "s32",   "u32",
                                                   "u16", "u8",   "s16", "f8e5m2_x4", "f8e8m0"};
    out_ += "tensor h0 hbm f32[128,32] input\ntensor h1 hbm f32[128,32] output\ntensor h2 hbm s32[128,4] input\n";
    for (int core = 0; core < cores_; ++core) {
      for (int i = 0; i < 4; ++i)
        out_ += cat("tensor s", core, i, " sbuf ", pick(kDtypes), "[128,32] at ", core, ".0:", i * 128, "\n");
      out_ += cat("tensor x", core, " sbuf s32[128,4] at ", core, ".0:512\n");
      for (int i = 0; i < 2; ++i) out_ += cat("tensor p", core, i, " psum f32[128,32] at ", core, ".0:", i * 256, "\n");
    }
  }

  void stream(int core, arch::Engine engine) {
    core_ = core;
    out_ += cat("stream ", core, ".", arch::name(engine), "\n");
    // Something to work on, from the start.
    for (int i = 0; i < 4; ++i)
      if (pick(4)) out_ += cat("  dma_copy dst=s", core, i, ":f32[0:128, 0, 8@1] src=h0[0, 128@32 8@1]\n");
    out_ += cat("  dma_copy dst=x", core, " src=h2\n");
    depth_ = 0;
    for (int n = pick(12); n > 0; --n) {
      if (pick(6) == 0 && depth_ < 3) out_ += cat("  loop ", pick(5), "\n"), ++depth_;
      instruction(engine);
      if (pick(4) == 0 && depth_ > 0) out_ += "  end_loop\n", --depth_;
    }
    while (depth_-- > 0) out_ += "  end_loop\n";
  }

  void instruction(arch::Engine engine) {
    std::vector<const arch::RowInfo*> rows;
    for (const arch::RowInfo& info : arch::rows())
      if ((info.row->engines & arch::bit(engine)) && (info.row->opcode > 4)) rows.push_back(&info);
    const arch::RowInfo& info = *rows[static_cast<size_t>((next() * 256 + next())) % rows.size()];
    static constexpr int kPartitions[] = {128, 32, 64, 1, 16}, kCounts[] = {8, 16, 1, 6, 2, 32, 4};
    partitions_ = pick(kPartitions);
    count_ = pick(kCounts);
    stride_ = pick(5) ? 1 : 2;
    control_ = info.row->unit == arch::Unit::control;
    if (control_) partitions_ = count_ = 1;
    out_ += cat("  ", info.row->name);
    for (const arch::OperandSlot& slot : info.slots)
      if (!slot.optional || pick(2)) out_ += cat(" ", slot.name, "=", operand(slot));
    for (const arch::AttrSlot& slot : info.attrs)
      if (slot.required || pick(3) == 0) attribute(slot);
    if (info.row->name == "semaphore_wait" || pick(4) == 0)
      out_ += cat(" wait s", pick(3), pick(8) ? ">=" : "==", pick(20));
    if (pick(2)) out_ += cat(" then s", pick(3), pick(8) ? "+=" : "-=", 1 + pick(16));
    out_ += "\n";
  }

  std::string operand(const arch::OperandSlot& slot) {
    std::vector<uint8_t> kinds;
    for (const uint8_t kind : {arch::kSbuf, arch::kPsum, arch::kHbm, arch::kImm, arch::kReg})
      if (slot.kinds & kind) kinds.push_back(kind);
    switch (kinds[static_cast<size_t>(pick(static_cast<int>(kinds.size())))]) {
      case arch::kImm:
        return control_ || pick(3) ? std::to_string(pick(40)) : "-1.5";
      case arch::kReg:
        return cat("r", pick(4));
      case arch::kHbm:
        return hbm();
      case arch::kPsum:
        return cat("p", core_, pick(2), region());
      default:
        return pick(6) ? cat("s", core_, pick(4), view(), region()) : cat("x", core_, region());
    }
  }

  std::string view() {
    static constexpr std::string_view kViews[] = {":f32", ":bf16", ":s32",       ":u32",
                                                  ":u16", ":u8",   ":f8e5m2_x4", ":f8e8m0"};
    return pick(3) ? "" : std::string(pick(kViews));
  }

  std::string offset() {
    std::string out = std::to_string(pick(4) ? 0 : pick(12));
    if (depth_ && pick(4) == 0) out += cat("+", pick(4), "*i", pick(depth_));
    by_register_ = pick(8) == 0;
    if (by_register_) out += cat("+r", pick(4), "*", 1 + pick(8));
    return out;
  }

  std::string region() {
    static constexpr int kStarts[] = {0, 0, 0, 32, 64, 96};
    const int count = pick(8) ? count_ : 1;
    std::string out = cat("[", pick(kStarts), ":", pick(8) ? partitions_ : 4, ", ", offset(), ", ");
    if (pick(5) == 0) out += cat(1 + pick(3), "@", pick(3), " ");
    out += cat(count, "@", stride_);
    if (!by_register_ && pick(12) == 0) out += cat(", free x", core_, "[0:16, 0, 1@1]*", 1 + pick(3));
    return out + "]";
  }

  std::string hbm() {
    std::string out = cat(pick(3) ? "h0" : "h1", "[", offset(), ", ", partitions_, "@", pick(8) ? 32 : pick(40), " ",
                          count_, "@", stride_);
    if (!by_register_ && pick(5) == 0) out += cat(", rows x", core_, "[0:", partitions_, ", 0, 1@1]*", pick(40));
    return out + "]";
  }

  void attribute(const arch::AttrSlot& slot) {
    out_ += cat(" ", slot.name, "=");
    switch (slot.type) {
      case arch::AttrType::enumeration:
        out_ += slot.set->members[static_cast<size_t>(pick(static_cast<int>(slot.set->members.size())))];
        return;
      case arch::AttrType::boolean:
        out_ += pick(2) ? "true" : "false";
        return;
      case arch::AttrType::real:
        out_ += pick(2) ? "0.5" : "2";
        return;
      case arch::AttrType::ints: {
        out_ += "[";
        for (int n = pick(4) ? 1 + pick(4) : 32, i = 0; i < n; ++i) out_ += cat(i ? "," : "", pick(33));
        out_ += "]";
        return;
      }
      default:
        out_ += std::to_string(pick(20));
    }
  }

  const uint8_t* data_;
  size_t size_, at_ = 0;
  std::string out_;
  int cores_ = 1, core_ = 0, depth_ = 0, partitions_ = 128, count_ = 8, stride_ = 1;
  bool control_ = false, by_register_ = false;
};

}  // namespace trine
