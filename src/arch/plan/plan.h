// The host plan: a graph's computation as steps over slots of memory, in order, ready for the native executor.
// compile/ writes it, host/ runs it; neither sees the other. Invariants: every step's inputs are written before it;
// two temporaries share arena bytes only if their live ranges do not overlap; plans of loops and branches are
// self-contained.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "arch/plan/loop.h"
#include "base/result.h"
#include "base/tensor.h"

namespace trine::arch {

using SlotId = uint32_t;
inline constexpr SlotId kNoSlot = UINT32_MAX;

enum class SlotKind : uint8_t {
  input,      // the caller's memory, read only
  output,     // the caller's memory
  constant,   // HostPlan::constants[index]
  temporary,  // `offset` in the plan's arena
};

struct Slot {
  SlotKind kind = SlotKind::temporary;
  Dtype dtype = Dtype::f32;
  Dims dims = {};
  uint32_t index = 0;        // of input, output or constant
  int64_t offset = 0;        // of a temporary, in bytes, a multiple of 64
  SlotId same_as = kNoSlot;  // another slot's bytes under other dims; kind, index and offset are that slot's

  size_t bytes() const { return size_t(trine::element_count(dims)) * size_t(trine::bytes(dtype)); }
};

struct HostPlan;

// An op by its reference meaning. Made by compile/, which knows the ops; called from any thread.
struct CallStep {
  std::string op = {};
  std::function<Result<void>(std::span<const TensorView> in, std::span<const TensorView> out)> run = {};
  std::function<std::string()> text = {};  // the op as the compiler had it, with attributes; for who prints the plan
};

// A fused loop nest. The program's operands are the step's inputs, then its outputs.
struct LoopStep {
  LoopProgram program = {};
};

// What becomes of a product, tile by tile, while it is in cache: a program over its rows (counted through the batch)
// and columns. Operand 0 is the product, in f32; the others are the step's inputs after the second, then its outputs.
// Null: the product is the step's output.
struct StepEpilogue {
  std::shared_ptr<const LoopProgram> program = {};
  bool keeps_product = false;  // it is the step's first output besides, before the program's
};

// C[m, n] = A[m, k] B[k, n] for every index of the batch dims; in[0] is A, in[1] B. Strides in elements, of any sign.
struct GemmStep {
  struct View {
    int64_t offset = 0, row_stride = 0, col_stride = 0;
  };
  struct Batch {
    int64_t size = 1, a = 0, b = 0, c = 0;
  };
  int64_t m = 1, n = 1, k = 1;
  View a = {}, b = {}, c = {};
  std::vector<Batch> batch = {};  // outermost first
  StepEpilogue epilogue = {};
};

// A convolution: in[0] is x, in[1] the kernel w. Strides in elements. Groups are independent: channels of x (feature
// groups) or items of the batch (batch groups), with their own part of w and y.
struct ConvStep {
  struct Spatial {
    int64_t in = 1, kernel = 1, out = 1;  // sizes
    int64_t step = 1, low = 0;            // of the window; elements of padding before the first
    int64_t in_dilation = 1, kernel_dilation = 1;
    bool reversed = false;
    int64_t x = 0, w = 0, y = 0;  // strides
  };
  std::vector<Spatial> spatial = {};
  int64_t batch = 1, in_channels = 1, out_channels = 1, groups = 1;  // channels and batch of one group
  int64_t x_offset = 0, w_offset = 0;
  int64_t x_batch = 0, x_channel = 0, x_group = 0;
  int64_t w_in = 0, w_out = 0, w_group = 0;
  int64_t y_batch = 0, y_channel = 0, y_group = 0;
  StepEpilogue epilogue = {};  // rows are batch and spatial, columns channels of all groups
};

// softmax(q k^T * scale + bias) v, scores never in memory; in: q, k, v, maybe the bias, maybe patches
// and their starts. Strides in elements, by
// batch, head, position (of a query or key) and dim; of the bias by batch, head, query and key.
struct AttentionStep {
  static constexpr int64_t kFewRows = 4;  // rows of queries to a head of keys that read keys where they lie
  struct View {
    int64_t offset = 0, batch = 0, head = 0, position = 0, dim = 0;
  };
  // Keys or values are as if `count` positions had been written over from a start on, both further inputs; for few
  // rows.
  struct Patch {
    View view = {};
    int64_t count = 0;  // 0: there is none
  };
  int64_t batch = 1, heads = 1, kv_heads = 1;  // heads / kv_heads neighbours share keys and values
  int64_t queries = 1, keys = 1, dim = 1, value_dim = 1;
  float scale = 1;
  bool causal = false;  // query i sees keys up to i + causal_offset
  int64_t causal_offset = 0;
  View q = {}, k = {}, v = {}, out = {};
  bool has_bias = false;  // of dtype bool: where it is false, scores are `masked` instead
  View bias = {};
  float masked = 0;
  Patch k_patch = {}, v_patch = {};
  int64_t k_positions = 0, v_positions = 0;  // of the whole tensors: a start is moved so that the patch fits
};

enum class MoveKind : uint8_t {
  slice,        // in: x, a start per dim; the box of out's dims at the starts, moved inside x
  update,       // in: x, a box, a start per dim; x with the box at the starts. out may be x's memory
  concatenate,  // in: parts along `dim`
  pad,          // in: x, the value around and between its elements
};

// Boxes of elements from here to there; nothing is computed.
struct MoveStep {
  MoveKind kind = MoveKind::slice;
  int64_t dim = 0;           // concatenate
  Dims low = {}, gaps = {};  // pad: elements before the first (below 0: so many dropped), and between two
};

enum class WindowKind : uint8_t { gather, set, add, multiply, maximum, minimum };

// Windows of an operand at computed indices. gather: in x, indices; out the windows side by side, `many`; a start is
// moved so that its window lies inside. Else: in x, indices, updates (`many`); out is x with the updates combined into
// it, in the order of the indices; out may be x's memory; a window that leaves x is dropped. Strides in elements. The
// updates may be a gather's windows that were never written: then in is x, indices, that gather's x and its indices.
struct WindowStep {
  struct Loop {
    int64_t size = 1, many = 0, operand = 0, indices = 0;
  };
  struct Start {
    int64_t indices = 0, operand = 0,
            most = 0;  // its position in an index vector; what one index comes to; the largest
  };
  struct Side {
    int64_t size = 1, many = 0, operand = 0;
  };
  WindowKind kind = WindowKind::gather;
  std::vector<Loop> windows = {};  // over the index vectors, outermost first
  std::vector<Start> starts = {};
  std::vector<Side> window = {};                   // over one window
  bool is_disjoint = true;                         // windows that begin at different indices do not overlap
  std::shared_ptr<const WindowStep> updates = {};  // a gather of as many windows, in the same order
};

// Copies in[0] to out[0]; slots may be the same memory.
struct CopyStep {};

// Inputs: carried values, then what cond and body use besides. Outputs: carried values after the last iteration.
// Both plans take (carried ..., used ...). cond gives bool[], asked before the first iteration; body gives the next
// carried values, then bool[]: is there another iteration?
struct WhileStep {
  std::vector<bool> in_place = {};  // per carried value: body writes the next one over this one
  std::shared_ptr<const HostPlan> cond = {}, body = {};
};

// Inputs: index s32[], then what the branches use; every branch takes all of those. An index out of range is the last.
struct CaseStep {
  std::vector<std::shared_ptr<const HostPlan>> branches = {};
};

enum class CollectiveKind : uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  permute,
  broadcast,
  partition_id,
  replica_id,
};

// Values are exchanged between devices: the caller's Collectives does it.
struct CollectiveStep {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::string reduction = {};                   // "add", "maximum" ...; empty: `reduce` decides
  std::shared_ptr<const HostPlan> reduce = {};  // (a, b) -> c on scalars
  std::vector<std::vector<int64_t>> groups = {};
  std::vector<std::pair<int64_t, int64_t>> pairs = {};  // permute: source, target
  int64_t dim = 0, other_dim = 0, split_count = 1;
  int64_t channel = 0;
  bool is_global = false;  // groups name global device numbers
};

struct Step {
  std::variant<CallStep, LoopStep, GemmStep, ConvStep, AttentionStep, MoveStep, WindowStep, CopyStep, WhileStep,
               CaseStep, CollectiveStep>
      what = CopyStep{};
  std::vector<SlotId> in = {}, out = {};
  uint32_t where = 0;  // HostPlan::locations
};

// What a plan was compiled from.
struct PlanSource {
  std::string name = {};      // "jit_f"
  std::string artifact = {};  // StableHLO, portable artifact or text
};

struct HostPlan {
  std::vector<Slot> slots = {};
  std::vector<Step> steps = {};
  std::vector<SlotId> inputs = {}, outputs = {};
  std::vector<trine::Tensor> constants = {};
  std::vector<int> donations = {};  // per input: the output that is given its memory, or -1; may be shorter
  std::vector<int> in_place = {};   // per output: the input over whose memory it may be written, or -1
  std::vector<std::string> locations = {""};
  int64_t arena_bytes = 0;
  double flops = 0;                               // a rough count, to decide whether to run inline
  double moved_bytes = 0;                         // likewise
  std::shared_ptr<const PlanSource> source = {};  // null: nobody said
};

}  // namespace trine::arch
