// Store: where each value is, on chip in one or more forms, in HBM, or both, and the instructions that bring it into
// another. Values that are one another's bytes (reshapes) share one Memory.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "compile/device/choose/choice.h"
#include "compile/device/memory/form.h"
#include "ir/graph.h"
#include "ir/value_hash.h"

namespace trine::compile::device {

// A weight as a multiply wants it in HBM: [batch, k within a chunk, chunk, column], so that a panel is one long row per
// partition. Brought into this order once, at load.
struct PanelLayout {
  Axes batch = {}, depth = {};  // over the weight's own dense elements; depth's last is cut into chunks of `lanes`
  Axis column = {};
  int64_t lanes = 1, chunks = 1;
  int64_t strip = 0;  // columns of which each part lies by itself, the last with what is left; 0: all are one part

  int64_t batches() const { return count_of(batch); }
  int64_t elements() const { return batches() * lanes * chunks * column.count; }
};

struct Memory {
  Dtype dtype = Dtype::f32;  // on the device
  Dims dims = {};
  int64_t elements = 1;
  int64_t hbm = -1;  // its tensor
  int input = -1;    // a weight that no one has laid out yet: its number
  std::optional<PanelLayout> panels = {};
  const void* panel_owner = nullptr;  // the multiply they were made for
  bool no_product = false;            // made by a loop: what is not finite must not reach other elements
  bool elsewhere = false;             // rows of another tensor, read where they lie (Recorder::lies_elsewhere)
  std::deque<Form> forms = {};        // references stay good
};

// The format a value has on the device, or nothing where the chip has none for it.
std::optional<Dtype> device_dtype(Dtype dtype);

class Store {
 public:
  explicit Store(Recorder& rec) : rec_(rec) {}

  Choice choice = {};  // of the unit in hand
  // Where a value is that another store has, on tensors of this one's recorder; `theirs` has the other's.
  void mirror(const Store& other, const arch::Program& theirs, const ir::Value& value);
  void swap(Store& other) { memories_.swap(other.memories_); }

  Memory& of(const ir::Value& value);                // through reshapes; made where it is new
  Memory& made(const ir::Value& value);              // the same; a view that nobody stored is now
  bool has(const ir::Value& value) const;            // was it computed, or given?
  const Memory* find(const ir::Value& value) const;  // null where nobody asked for it yet
  uint32_t hbm(Memory& m);                           // its tensor in HBM; stored there first where it is on chip alone
  void write(Memory& m, uint32_t hbm);               // from its tiles to memory of its size
  void keep_in_hbm(Memory& m, std::string_view name, arch::TensorKind kind, std::span<const std::byte> data = {});

  // New tiles for a value, to be written.
  Form& new_form(Memory& m, Dtype dtype, bool transposed, int64_t columns, const Tiling& tiling);
  // The value with these columns, rows (or, transposed, columns) on partitions; made where there is none.
  // A tiling of period 0: any.
  const Form& form(Memory& m, Dtype dtype, bool transposed, int64_t columns, const Tiling& tiling);

  // dst (columns dense) = elements e0 + part × free of HBM, in as many transfers as it takes.
  void load(const View& dst, uint32_t hbm, Dtype dtype, int64_t e0, const Axes& part, const Axes& free);
  void store(uint32_t hbm, Dtype dtype, int64_t e0, const Axes& part, const Axes& free, const View& src);

  // Where each value is, and back to that: what a loop's body moved is not there after it.
  struct Snapshot {
    size_t forms = 0;
    int64_t hbm = -1;
  };
  using Mark = std::unordered_map<const Memory*, Snapshot>;
  Mark mark() const;
  void back_to(const Mark& mark);

  bool fits(const Memory& m) const { return m.elements * bytes(m.dtype) / rec_.chip().partitions <= keep_bytes(); }
  int64_t lanes() const { return rec_.chip().partitions; }
  // What a value on chip may take in all, bytes per partition.
  int64_t keep_bytes() const { return rec_.chip().sbuf.bytes_per_partition / 4; }

 private:
  void store_transposed(Memory& m, uint32_t hbm, const Form& from);
  void transpose(const Form& from, Form& to);
  void copy_form(const Form& from, Form& to);
  void fill_from_hbm(Memory& m, Form& to);
  bool fill_transposed_from_hbm(Memory& m, Form& to);

  Recorder& rec_;
  std::unordered_map<ir::Value, std::unique_ptr<Memory>, ir::ValueHash> memories_;
};

// The value whose bytes these are: through reshapes.
ir::Value memory_root(ir::Value value);

}  // namespace trine::compile::device
