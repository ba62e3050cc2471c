// The small closed sets that instructions speak in: engines, memories, ALU and activation functions, modes.
// Each set is an enum here and one list of names in enums.cpp; assembler, NKI and reference pages use those names.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace trine::arch {

// The five sequencers, each with its own instruction stream. DMA work is issued from a stream and runs on a queue.
enum class Engine : uint8_t { tensor, vector, scalar, gpsimd, sync };
inline constexpr int kEngineCount = 5;

using EngineMask = uint8_t;
constexpr EngineMask bit(Engine e) { return static_cast<EngineMask>(1u << static_cast<int>(e)); }
inline constexpr EngineMask kTensor = bit(Engine::tensor), kVector = bit(Engine::vector), kScalar = bit(Engine::scalar),
                            kGpsimd = bit(Engine::gpsimd), kSync = bit(Engine::sync), kAnyEngine = 0x1f;

enum class Space : uint8_t { hbm, sbuf, psum };

// nki.isa ALU operators. `bypass` passes the data operand through.
enum class Alu : uint8_t {
  bypass,
  add,
  subtract,
  multiply,
  max,
  min,
  equal,
  not_equal,
  greater_equal,
  greater,
  less_equal,
  less,
  logical_and,
  logical_or,
  logical_xor,
  power,
  abs_max,
  abs_min,
  abs,
  square,
  relu,
  rsqrt,
  reciprocal,
  average,
  bitwise_invert,
  bitwise_and,
  bitwise_or,
  bitwise_xor,
  shift_left,
  shift_right,
};
constexpr bool is_bitvec(Alu op) { return op >= Alu::bitwise_invert; }

// Functions of the scalar engine's tables.
enum class Act : uint8_t {
  copy,
  abs,
  arctan,
  cos,
  erf,
  erf_dx,
  exp,
  gelu,
  gelu_dx,
  gelu_apprx_sigmoid,
  gelu_apprx_sigmoid_dx,
  gelu_apprx_tanh,
  log,
  mish,
  reciprocal,
  relu,
  prelu,
  rsqrt,
  sigmoid,
  sign,
  silu,
  silu_dx,
  sin,
  softplus,
  sqrt,
  square,
  tanh,
};

enum class Accumulate : uint8_t { overwrite, add, first };  // first: overwrite where no group is open, else add
enum class ReduceCmd : uint8_t { idle, reset, reduce, reset_reduce, load_reduce };  // nki numbering
enum class Dge : uint8_t { unknown, swdge, hwdge, none };                           // nki numbering
enum class Oob : uint8_t { error, skip };
enum class PerfMode : uint8_t { none, double_row };
enum class Compare : uint8_t { eq, ne, ge, gt, le, lt };
enum class Collective : uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, permute, broadcast };

// A closed set as the assembler sees it: its name and its members' names, in value order.
struct EnumRow {
  std::string_view name;
  std::span<const std::string_view> members;
};
std::span<const EnumRow> enum_rows();
const EnumRow* enum_by_name(std::string_view name);

std::string_view name(Engine e);
std::string_view name(Space s);
std::string_view name(Alu op);
std::string_view name(Act op);
std::optional<Engine> engine_by_name(std::string_view name);

}  // namespace trine::arch
