// Program: what the compiler side hands to the running side. Plain data, pooled so that a million instructions stay
// small; loops stay loops. Not a file format (container.h) and not text (asm/asm.h).
// Invariant after verify(): every index below is in range and every static address lies inside its tensor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/enums.h"
#include "base/number/number.h"

namespace trine::arch {

inline constexpr int kFreeDimsMax = 4;   // per partition
inline constexpr int kLoopDepthMax = 8;  // nested loops in one stream
inline constexpr int kRegisterCount = 64;

enum class TensorKind : uint8_t { scratch, input, output, constant };

// A named piece of memory. On-chip shapes are [partitions, …free]; HBM shapes are any, row major.
struct Tensor {
  std::string name;
  Space space = Space::hbm;
  Dtype dtype = Dtype::f32;
  TensorKind kind = TensorKind::scratch;
  uint8_t core = 0;  // which core's SBUF or PSUM; HBM is shared by the program's cores
  std::vector<int64_t> shape;
  int32_t partition = 0;     // on chip: first partition
  int64_t address = 0;       // on chip: byte offset inside each partition; HBM: byte address, 256-aligned
  int32_t alias = -1;        // an output that is this input's storage, or -1
  uint64_t data_offset = 0;  // constants: where the bytes start in Program::data
  uint64_t data_bytes = 0;
};

struct Dim {
  int64_t stride = 1;  // elements
  uint32_t count = 1;
  bool operator==(const Dim&) const = default;
};

// How an operand walks its tensor; interned. Elements are visited partition by partition, dims outermost first.
// On chip `partitions` neighbours share one free pattern; in HBM the rows lie `partition_stride` elements apart.
struct Pattern {
  Dtype dtype = Dtype::f32;  // may differ from the tensor's: a bit-cast view
  uint8_t rank = 0;          // free dims in use
  uint16_t partitions = 1;
  int64_t partition_stride = 0;  // HBM only, elements
  std::array<Dim, kFreeDimsMax> dims{};
  std::array<int64_t, kLoopDepthMax> step{};  // elements added to the offset per iteration of the loop at that depth
  bool operator==(const Pattern&) const = default;

  int64_t row_elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[static_cast<size_t>(i)].count;
    return n;
  }
  int64_t elements() const { return row_elements() * partitions; }
};

// An address that depends on data. `rows`: row p starts at offset + index[p]·scale (DMA gather and scatter).
// `free`: v4 gather along the free dim, element group i starts at offset + index[i mod G, i div G]·scale.
// `reg`: offset + register·scale.
enum class DynamicKind : uint8_t { reg, rows, free };
struct Dynamic {
  DynamicKind kind = DynamicKind::reg;
  uint8_t reg = 0;
  uint32_t index = 0;  // rows, free: operand index (in Program::operands) of the index tile
  int64_t scale = 1;   // elements
};

enum class OperandKind : uint8_t { none, tile, immediate, reg };
struct Operand {
  OperandKind kind = OperandKind::none;
  uint8_t partition = 0;  // first partition, counted from the tensor's own
  uint8_t reg = 0;        // kind reg
  uint32_t tensor = 0;
  uint32_t pattern = 0;
  uint32_t dynamic = 0;  // 1 + index in Program::dynamics, 0 when the address is static
  int64_t offset = 0;    // tile: elements of the pattern's dtype from the tensor's start (in its partition, on chip)
  double immediate = 0;  // kind immediate
};

enum class WaitOp : uint8_t { ge, eq };
struct Wait {
  uint16_t semaphore = 0;
  WaitOp op = WaitOp::ge;
  uint32_t steps = 0;  // index in Program::steps; entry 0 is all zero
  int64_t value = 0;   // + Σ steps[depth]·loop index
};

enum class UpdateOp : uint8_t { add, subtract, set };
struct Update {
  uint16_t semaphore = 0;
  UpdateOp op = UpdateOp::add;
  int64_t value = 1;
};

// One instruction. Its row says how many operands and attributes follow in the pools.
struct Insn {
  uint16_t opcode = 0;
  uint8_t waits = 0;
  uint8_t updates = 0;
  uint32_t operand = 0;  // first in Program::operands
  uint32_t attr = 0;     // first in Program::attrs
  uint32_t wait = 0;
  uint32_t update = 0;
  uint32_t line = 0;  // 1 + index in Program::lines, 0 unknown
};

struct Stream {
  uint8_t core = 0;
  Engine engine = Engine::sync;
  std::vector<Insn> insns;
};

struct SourceLine {
  uint32_t file = 0;  // index in Program::strings
  uint32_t line = 0;
  bool operator==(const SourceLine&) const = default;
};

// Constant bytes: owned while a program is built, or a part of the file it was read from. The file's map is shared by
// the program's copies, since nobody writes it.
class ConstantBytes {
 public:
  ConstantBytes() = default;
  ConstantBytes(std::shared_ptr<const void> file, std::span<const std::byte> part)
      : file_(std::move(file)), part_(part) {}

  const std::byte* data() const { return file_ ? part_.data() : owned_.data(); }
  size_t size() const { return file_ ? part_.size() : owned_.size(); }
  const std::byte* begin() const { return data(); }
  const std::byte* end() const { return data() + size(); }
  // At the next multiple of `align`, where they begin is returned.
  size_t append(std::span<const std::byte> bytes, size_t align);

 private:
  std::vector<std::byte> owned_;
  std::shared_ptr<const void> file_;
  std::span<const std::byte> part_;
};

struct Program {
  std::string name;
  std::string chip;      // chip file it was made for; may be empty
  std::string producer;  // compiler and version, flags
  uint8_t cores = 1;     // physical cores that run it together (LNC)
  std::vector<Tensor> tensors;
  std::vector<Stream> streams;

  std::vector<Operand> operands;
  std::vector<Pattern> patterns;
  std::vector<Dynamic> dynamics;
  std::vector<int64_t> attrs;  // ints, enums, bools; floats as the bits of a double; lists and strings as an index
  std::vector<std::vector<int64_t>> lists;
  std::vector<std::string> strings;
  std::vector<Wait> waits;
  std::vector<Update> updates;
  std::vector<std::array<int64_t, kLoopDepthMax>> steps{{}};
  std::vector<SourceLine> lines;
  ConstantBytes data;  // constants

  int find_tensor(std::string_view name) const;  // -1 when absent
  int64_t instruction_count() const;             // static
};

std::string source_line(const Program& p, const Insn& insn);  // "kernel.py:12", empty when unknown

int64_t element_count(const Tensor& t);
int64_t tensor_bytes(const Tensor& t);         // whole tensor
int64_t bytes_per_partition(const Tensor& t);  // on chip

}  // namespace trine::arch
