// Builder: makes a Program piece by piece and keeps its pools free of doubles. Used by the assembler and by compilers.
// It allocates and interns, it does not judge: check_structure() and verify() (verify.h) do.
// Invariant: the same calls give the same Program.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "arch/program/program.h"
#include "arch/row.h"

namespace trine::arch {

// The whole of a tensor, row by row, seen as `view`: on chip [partitions, …free]; in HBM the first of two or more dims
// is the rows. Nothing when the shape cannot be walked that way (too many dims, a view that does not divide).
std::optional<Pattern> whole_pattern(const Tensor& t, Dtype view);

// Dims are not negative and the tensor's size can be computed: at most 2^46 bytes.
bool size_fits(const Tensor& t);

// Where the next tensor goes when nobody says: after the last one of its memory. HBM in steps of 256 bytes, PSUM in
// banks, SBUF in steps of 64 bytes.
class BumpAllocator {
 public:
  int64_t next(Space space, int core) const;
  void taken(const Tensor& t);

 private:
  std::map<std::pair<Space, int>, int64_t> end_;
};

// One instruction before it is pooled: every slot and attribute of its row, at first empty or at its default.
struct Draft {
  explicit Draft(const RowInfo& row);
  Draft& set(std::string_view slot, const Operand& o);
  Draft& set_attr(std::string_view name, int64_t encoded);  // in the encoding of Program::attrs
  Draft& set_real(std::string_view name, double v);

  const RowInfo* info;
  std::vector<Operand> operands;
  std::vector<int64_t> attrs;
  std::vector<Wait> waits;
  std::vector<Update> updates;
  uint32_t line = 0;
};

Operand immediate_operand(double v);
Operand register_operand(int number);

class Builder {
 public:
  explicit Builder(std::string name = {});

  uint32_t add_tensor(Tensor t);  // at the address given
  uint32_t add_constant(Tensor t, std::span<const std::byte> bytes);
  int find_tensor(std::string_view name) const;  // -1 when absent
  BumpAllocator allocator;

  Operand tile(uint32_t tensor, const Pattern& pattern, int64_t offset = 0, int partition = 0, uint32_t dynamic = 0);
  uint32_t dynamic(const Dynamic& d);  // 1 + index, as Operand::dynamic
  uint32_t dynamic(DynamicKind kind, const Operand& index, int64_t scale);
  int64_t list(std::span<const int64_t> values);  // -1 for the empty one
  int64_t string(std::string_view s);             // -1 for the empty one
  uint32_t steps(const std::array<int64_t, kLoopDepthMax>& steps);
  uint32_t line(std::string_view file, uint32_t number);  // 1 + index, as Insn::line

  size_t stream(int core, Engine engine);  // the one there is, or a new one
  uint32_t emit(size_t stream, const Draft& d);

  Program& program() { return program_; }
  const Program& program() const { return program_; }
  Program take() { return std::move(program_); }

 private:
  // Index of what `key` stands for; `add` appends it when it is new.
  template <class F>
  uint32_t intern(char pool, std::string key, F add);
  uint32_t operand_block(std::span<const Operand> operands);
  uint32_t attr_block(std::span<const int64_t> attrs);

  Program program_;
  std::unordered_map<std::string, uint32_t> pooled_;
  std::unordered_map<std::string, uint32_t> tensors_;
};

}  // namespace trine::arch
