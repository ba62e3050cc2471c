// Recorder: instructions of the device compiler, in program order, over tensors that compile/stream allocates later.
// A View is memory as an instruction sees it; an Axis one of its dims. What the chip does not allow is our own bug and
// ends in error() once, with the instruction's name.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "arch/program/kernel.h"
#include "base/result.h"

namespace trine::compile::device {

struct Axis {
  int64_t stride = 0, count = 1;  // elements
  bool operator==(const Axis&) const = default;
};
using Axes = std::vector<Axis>;

int64_t count_of(const Axes& axes);
// Without dims of one element, neighbours that walk on merged; never empty.
Axes collapse(const Axes& axes);

// On chip: partitions from `partition` on, each walked by `axes` from `offset` on. In HBM the rows lie row_stride
// apart.
struct View {
  uint32_t tensor = 0;
  Dtype dtype = Dtype::f32;
  int partition = 0, partitions = 1;
  int64_t row_stride = 0, offset = 0;
  Axes axes = {};
  int64_t step = 0;      // elements further in each iteration of the innermost loop
  uint32_t dynamic = 0;  // as Operand::dynamic

  int64_t columns() const { return count_of(axes); }
  bool operator==(const View&) const = default;
};

struct Register {
  int number = 0;
};

// An operand of an instruction: a view, a number or a register.
struct Source {
  bool is_view = false;
  View view = {};
  std::optional<Register> reg = {};
  double number = 0;

  Source(View v) : is_view(true), view(std::move(v)) {}
  Source(double v) : number(v) {}
  Source(Register r) : reg(r) {}
  bool is_number() const { return !is_view && !reg; }
};

using Slots = std::initializer_list<std::pair<std::string_view, Source>>;
using Settings = std::initializer_list<std::pair<std::string_view, std::variant<int64_t, double, std::string_view>>>;

class Recorder {
 public:
  // Instructions of one program at most; Neuron's compiler has the same limit ("over the threshold (5000000)",
  // aws-neuron-sdk issue 819).
  static constexpr size_t kInsnsMax = 5'000'000;

  Recorder(std::string name, const arch::Chip& chip, size_t insns_max = kInsnsMax);

  const arch::Chip& chip() const { return *kernel_.chip; }
  arch::Kernel& kernel() { return kernel_; }
  const arch::Kernel& kernel() const { return kernel_; }
  // Of one multiply: what fills a bank of PSUM in f32, although later cores take more.
  int64_t columns_max() const { return std::min<int64_t>(chip().tensor.moving_max, 512); }
  size_t insn_count() const { return kernel_.insns.size(); }

  View on_chip(arch::Space space, Dtype dtype, int64_t partitions, int64_t columns, std::string_view name);
  View sbuf(Dtype dtype, int64_t partitions, int64_t columns, std::string_view name = "t") {
    return on_chip(arch::Space::sbuf, dtype, partitions, columns, name);
  }
  View psum(int64_t partitions, int64_t columns, Dtype dtype = Dtype::f32) {
    return on_chip(arch::Space::psum, dtype, partitions, columns, "acc");
  }
  uint32_t hbm(std::string_view name, Dtype dtype, std::vector<int64_t> shape, arch::TensorKind kind,
               std::span<const std::byte> data = {});

  // engines: those it may run on, of the row's; 0 all of them.
  void emit(std::string_view row, Slots slots, Settings settings = {}, arch::EngineMask engines = 0);
  // dst = src, element by element; both walked as they are.
  void transfer(const View& dst, const View& src) { emit("dma_copy", {{"dst", dst}, {"src", src}}); }

  // dst = offset + lane·multiplier + Σ step·index over pattern (step, count pairs), in 32-bit integers.
  void emit_iota(const View& dst, const std::vector<int64_t>& pattern, int64_t offset, int64_t multiplier);

  // One element per partition, all this number; the same tile each time.
  View constant_row(double number, Dtype dtype = Dtype::f32);

  bool in_psum(const View& v) { return kernel_.program().tensors[v.tensor].space == arch::Space::psum; }

  // Which of Vector and Scalar has less to do so far: for work that either can take.
  bool scalar_is_free() const { return busy_scalar_ < busy_vector_; }
  // Can GpSimd take some of Vector's work, and has it less to do?
  bool gpsimd_is_free() const { return !chip().has(arch::Feature::shared_ports) && busy_gpsimd_ < busy_vector_; }

  // What follows, up to end_loop(), runs `iterations` times; repeats: while the register is not zero.
  void loop(const Source& iterations, bool repeats = false);
  void end_loop();
  // Registers are taken round-robin, so that what uses one after the other can overlap; those that loops look at are
  // their own.
  Register next_register() { return {register_++ % kRotating}; }
  int depth() const { return nest_.depth; }  // loops around what is recorded
  Register loop_register() const { return {kRotating + nest_.depth}; }
  // The address of an operand: + register × scale elements, or row p at + index[p] × scale.
  uint32_t by_register(Register r, int64_t scale);
  uint32_t by_rows(const View& index, int64_t scale);

  // A tensor of HBM whose rows, `each` elements long, lie in another one, each where a register says.
  struct Elsewhere {
    uint32_t tensor = 0;
    int64_t each = 1;
    std::vector<uint32_t> dynamic = {};  // of each row
  };
  void lies_elsewhere(uint32_t tensor, Elsewhere where) { elsewhere_[tensor] = std::move(where); }
  bool lies_elsewhere(uint32_t tensor) const { return elsewhere_.count(tensor) > 0; }
  // Registers that nothing else takes for a while.
  Register reserved_register() { return {arch::kRegisterCount - 1 - reserved_++ % kReserved}; }

  void at(uint32_t line) { line_ = line; }  // as Insn::line, of what follows
  const std::optional<Error>& error() const { return error_; }
  void fail_with(Error e) {
    if (!error_) error_ = std::move(e);
  }
  void fail_at(const std::string& where) {  // what has no location of its own
    if (error_ && error_->where.empty()) error_->where = where;
  }

 private:
  arch::Operand operand(const Source& source);
  View found(View v);
  int64_t encoded(const arch::RowInfo& info, const arch::AttrSlot& slot,
                  const std::variant<int64_t, double, std::string_view>& value);

  static constexpr int kRotating = arch::kRegisterCount / 2, kReserved = arch::kRegisterCount / 4;

  arch::Kernel kernel_;
  size_t insns_max_;
  using Constants = std::map<std::pair<Dtype, uint64_t>, View>;  // by the bits of the number
  Constants constant_rows_;
  std::vector<Constants> around_;  // of the loops around what is recorded: one without an iteration fills nothing
  std::unordered_map<uint32_t, Elsewhere> elsewhere_;
  double busy_vector_ = 0, busy_scalar_ = 0, busy_gpsimd_ = 0;  // ns, roughly

  arch::LoopNest nest_;
  int register_ = 0, reserved_ = 0;
  uint32_t names_ = 0;
  uint32_t line_ = 0;
  std::optional<Error> error_;
};

}  // namespace trine::compile::device
