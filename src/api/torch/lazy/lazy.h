// Ops on `xla` are recorded, one queue a device, and run as one program when a value is asked for or a step ends.
// A Buffer is what a storage's bytes are: in memory, or still to be written by the queue. The queue names storages and
// where in them a tensor lies; views are torch's own and are not recorded. Programs are kept by the whole trace.
#pragma once

#include "api/torch/aten.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/torch/backend.h"
#include "api/torch/eager/call.h"
#include "api/torch/lazy/spread.h"
#include "run/devices/memory.h"

namespace trine::api::neuron {

struct Buffer {
  int device = 0;
  size_t bytes = 0;                           // of the storage, when the queue met it
  std::shared_ptr<run::Storage> memory = {};  // null: nothing was written yet, or it lies in parts
  const World* world = nullptr;               // whose devices have the parts, or are to have them
  const Layout* layout = nullptr;             // as they have them; null: all of it on each
  Parts parts = {};
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> storage = {};
  int64_t slot = -1;  // its number in the queue
  at::ScalarType dtype = at::kByte;
  std::vector<int64_t> dims = {};                      // of the tensor by which the queue met it
  bool is_written = false;                             // by what is recorded
  bool is_lost = false;                                // the program that was to write it failed
  std::unique_ptr<run::ArrayForms> packed_forms = {};  // packed forms, once it was read twice unchanged
  int reads = 0;
};
using BufferPtr = std::shared_ptr<Buffer>;

// What Python is asked to make a program of.
struct Trace {
  struct Slot {
    at::ScalarType dtype;
    int64_t elements;
    bool has_memory, is_given;       // given: somebody still holds it and it was written
    const Layout* layout = nullptr;  // in a World
  };
  std::vector<int64_t> words = {};  // per op: its number, slot and offset of each tensor (-1: a number), slots it makes
  std::vector<Slot> slots = {};
  const World* world = nullptr;  // whose devices run it; null: the one device
};

struct Step {
  struct Param {
    bool is_number = false;
    int index = 0;  // of a slot, or of the trace's numbers
  };
  struct Output {
    int slot = 0;
    int over = -1;  // the parameter whose memory it is written to
  };
  std::shared_ptr<const run::DirectProgram> program = {};  // or
  std::shared_ptr<const Spread> spread = {};
  std::vector<Param> params = {};
  std::vector<Output> outputs = {};
};

c10::DataPtr allocate_lazily(size_t bytes);
void resize_lazily(const c10::Storage& storage, size_t bytes);

void lazy_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void settle(const at::Tensor& tensor, Use use);  // its bytes in memory, for the host to use
void copy_to_lazy(const at::Tensor& from, const at::Tensor& to);
void end_step();  // runs what is recorded, on every device

// Deals a tensor that covers its storage over a world's devices; `dims` are in the order of memory. False where its
// value is still to be computed: what is recorded will run on those devices.
bool deal(const at::Tensor& tensor, const World& world, Dims dims, compile::Sharding sharding);
void undeal(const at::Tensor& tensor);
std::string sharding_spec(const at::Tensor& tensor);  // as XLA writes it; empty: not dealt
struct Shard {
  int device = 0;
  at::Tensor values = {};
  std::vector<int64_t> start = {};
};
std::vector<Shard> shards(const at::Tensor& tensor);
int64_t recorded_words(int device);

std::shared_ptr<const Entry> make_recorded(const Call& call);  // these two ask Python; in module.cpp
std::shared_ptr<const Step> make_step(const Trace& trace);

struct Metric {
  int64_t count = 0;
  double total = 0;                                  // seconds
  std::vector<std::pair<double, double>> last = {};  // (when, seconds), as many as are kept
};
std::unordered_map<std::string, Metric> metrics();
std::unordered_map<std::string, int64_t> counters();
void clear_metrics();
void set_extracting(bool extracting);  // programs are made and not run: results are zeros

}  // namespace trine::api::neuron
