// A training step as a Job: stages of a pipeline, each with what it does of one batch, forward and backward, in the
// order of 1F1B or of the interleaved schedule. Batches beyond those that a schedule needs to settle add the same each,
// so any number of them costs the same to time.
#pragma once

#include "sim/cluster/step.h"

namespace trine::sim {

// Lanes of a stage's core beside its engines.
enum class Stream : int32_t { compute, copies, ring, receive_forward, send_forward, receive_backward, send_backward };

// Of a piece here: `after` counts from the first piece of its own list; -1 is the last of lane 0 before that list, -2
// the one before it. `group` is one of Axis.
enum class Axis : int32_t { none = -1, tensor, data };

struct StagePiece {
  Piece piece = {};
  bool after_all = false;  // that the rank was given before, on any lane
};
using StagePieces = std::vector<StagePiece>;

struct Stage {
  std::vector<StagePieces> forward = {}, backward = {};  // of each chunk of its layers
  std::vector<StagePieces> backward_last = {};           // of the last batch; empty: as the others
  StagePieces begin = {}, end = {};                      // before the first batch, after the last
};

struct Pipeline {
  std::vector<std::string> names = {};
  std::vector<Stage> stages = {};
  int64_t batches = 1;
  Piece send = {};           // to the next stage, and of gradients to the one before: ns, what, uses
  bool sends_block = false;  // the engines wait for what they send
  double packet_bytes_compute = 4096, packet_bytes_collective = 65536;

  int64_t chunks() const { return stages.empty() ? 0 : static_cast<int64_t>(stages[0].forward.size()); }
};

// (chunk, batch, is forward) of each pass of a stage.
struct Pass {
  int64_t chunk = 0, batch = 0;
  bool forward = true;

  bool operator==(const Pass&) const = default;
};
std::vector<Pass> passes(int64_t stages, int64_t chunks, int64_t batches, int64_t stage);
// The most chunks of which a stage keeps what their way back needs, at any time.
int64_t in_flight_max(const std::vector<Pass>& passes);

// Explicit ranks [stage][data][tensor]; with one of each, a rank of each class.
struct Grid {
  int64_t data = 1, tensor = 1;
};
Result<Job> expand(const Pipeline& pipeline, const Grid& grid = {});

// By classes; of many batches by the last ones that differ. `ranks` of the result are stages.
Result<StepTime> time_pipeline(const Pipeline& pipeline, bool with_spans = false);

}  // namespace trine::sim
