// The state that instructions change: HBM, and per core SBUF, PSUM, registers, semaphores, accumulators.
// Every read and write of an instruction goes through the row accessors here, so that bounds, formats, rounding and
// "nobody wrote this" are handled once. Knows nothing of time or of other engines' order (run/drivers/exact does).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "arch/call.h"
#include "arch/memory.h"
#include "arch/program/program.h"
#include "base/number/number.h"

namespace trine::arch {

// What the simulated machine did wrong or found wrong in the user's program. Data, never a host error.
enum class FaultKind : uint8_t {
  uninitialized_read,
  out_of_bounds,
  accumulate_uninitialized,
  nan,
  out_of_range_input,
  bad_register,
  race,
  deadlock,
  over_capacity,
  collective_mismatch,
};
std::string_view name(FaultKind k);
struct Fault {
  FaultKind kind = FaultKind::uninitialized_read;
  std::string operand;  // slot name
  std::string detail;   // found … expected …
};

struct CoreShape {
  int partitions = 128;
  int semaphores = 256;
};

class Machine;

// Rows that lie evenly apart in memory, all of them inside their tensor.
struct Rows {
  std::byte* first = nullptr;  // null: each row has an address of its own
  ptrdiff_t apart = 0;
  std::byte* at(int row) const { return first + row * apart; }
  explicit operator bool() const { return first; }
};

class Core {
 public:
  Core(Machine& machine, int number, const CoreShape& shape);

  // --- rows of a tile: elements in pattern order, through f32 with the dtype's meaning ---
  void read(const Tile& t, int row, float* out);
  void write(const Tile& t, int row, const float* in);  // rounds as `rounding` says
  // Raw element bits, zero-extended; formats of up to 32 bits.
  void read_bits(const Tile& t, int row, uint32_t* out);
  void write_bits(const Tile& t, int row, const uint32_t* in);
  // Integers keep every bit; floats are rounded to nearest even.
  void read_int(const Tile& t, int row, int64_t* out);
  void write_int(const Tile& t, int row, const int64_t* in);  // saturates integer formats
  // Whole elements as bytes, any width; used by same-dtype copies. `out` holds row_elements·element_bytes.
  void read_bytes(const Tile& t, int row, std::byte* out);
  void write_bytes(const Tile& t, int row, const std::byte* in);
  // Every row of the tile at once, looked at (or marked as written) here; none where a row is not where it should be or
  // depends on data, which the row accessors then see to.
  Rows rows(const Tile& t, bool writing);
  // One of those rows, where rows() found it.
  void take(const Tile& t, const std::byte* at, float* out);
  void put(const Tile& t, std::byte* at, const float* in);  // rounds; looks for no NaN
  // All rows one after the other, without gaps.
  void read_all(const Tile& t, float* out);
  void read_all_bits(const Tile& t, uint32_t* out);
  void read_all_bytes(const Tile& t, std::byte* out);
  void write_all_bits(const Tile& t, const uint32_t* in);
  void write_all_bytes(const Tile& t, const std::byte* in);
  void fill_bytes(const Tile& t, const std::byte* in);  // the same in every row
  // Without a copy where the row is contiguous f32, else through `scratch`.
  const float* view(const Tile& t, int row, float* scratch);
  void store(const Tile& t, int row, const float* values);

  // What the tile's index tile holds now, in the order of the rows or groups it addresses. Never a fault.
  std::vector<int64_t> indices(const Tile& t);
  // The instruction writes all, some or none of the tile, as its data says.
  void may_write(const Tile& t);
  // True when the row's dynamic index points outside its tensor and the instruction says skip.
  bool row_skipped(const Tile& t, int row);
  void fault(FaultKind kind, std::string_view operand, std::string detail);
  // Marks which slot the accessors are working on, so that a fault names its operand.
  void set_slot(std::string_view slot) { slot_ = slot; }

  Memory& memory(const Tile& t);
  const CoreShape& shape() const { return shape_; }
  Machine& machine() { return machine_; }

  Memory sbuf, psum;
  std::vector<int64_t> semaphores;
  std::array<std::array<uint32_t, kRegisterCount>, kEngineCount> registers{};
  std::array<float, 128> vector_acc{}, scalar_acc{};
  std::array<std::array<uint32_t, 24>, 128> vector_rng{}, gpsimd_rng{};
  Rounding rounding;
  Oob oob = Oob::error;  // of the instruction in hand
  bool trap_nan = false;
  // Off: the program is known to read only what it wrote and to keep its PSUM groups, whatever its data.
  bool tracked = true;
  std::vector<Fault> faults;  // the driver takes them after each instruction

 private:
  // Rows of a tile that lie evenly apart, the first of them at `offset`.
  struct Stretch {
    int row = 0, count = 1;
    int64_t offset = 0;
  };
  int64_t index_at(const Tile& index, int64_t row, int64_t element);
  bool row_offset(const Tile& t, int row, int64_t& offset);
  std::byte* row_address(const Tile& t, int row, bool writing, bool& ok);
  void fault_outside(const Tile& t, int row, int64_t offset);
  void close_groups(const Tile& t, const Stretch& s, bool writing);
  void track(const Tile& t, const Stretch& s, Memory& m, bool writing);
  bool all_written(const Tile& t, const Stretch& s, const Memory& m) const;
  void fault_unwritten(const Tile& t, const Stretch& s, const Memory& m);
  void note_moving(const Tile& t, const Memory& m);
  void gather_free(const Tile& t, int row, std::byte* out);
  std::byte* row_scratch(const Tile& t);
  const std::byte* row_data(const Tile& t, int row);  // the row's bytes, in memory or in scratch
  Machine& machine_;
  CoreShape shape_;
  std::string_view slot_;
  std::vector<std::byte> row_bytes_;
};

// The cores that run one program together and the HBM they share.
class Machine {
 public:
  Machine(const Program& program, const CoreShape& shape);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine();
  const Program& program() const { return program_; }

  std::string refused() const;      // the first memory that the host had no room for, or empty
  bool all_written(const Tile& t);  // of the whole tensor that the tile lies in
  // The memory of an HBM tensor; an output that is an input's storage shares that input's.
  Memory& hbm_of(uint32_t tensor) { return hbm[storage(tensor)]; }
  uint32_t storage(uint32_t tensor) const {
    const int32_t alias = program_.tensors[tensor].alias;
    return alias < 0 ? tensor : static_cast<uint32_t>(alias);
  }

  std::vector<Memory> hbm;  // one per tensor; empty for on-chip tensors and aliases
  std::vector<Core> cores;
  // Cleared when other data could have had the run read what nobody wrote.
  bool settled = true;
  void restart();  // registers, semaphores and accumulators as at the beginning; memory stays
  // While a rendezvous row runs: the calls that take part, one per core in core order. The row's exec runs once for all
  // of them.
  std::span<const Call> rendezvous;

 private:
  const Program& program_;
  std::vector<bool> complete_;  // tensors that are known to be written whole
};

}  // namespace trine::arch
