// One call of an ATen op on `neuron`: its arguments flattened, and the key under which a program for it is kept.
// The key holds everything that decides the program: the op, types, shapes, strides, numbers, which tensors share
// memory.
#pragma once

#include "api/torch/aten.h"

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "run/drivers/native/direct.h"

namespace trine::api::neuron {

struct Call {
  const c10::OperatorHandle& op;
  c10::ArrayRef<c10::IValue> arguments;
  c10::SmallVector<at::Tensor, 6> tensors = {};  // all of them, lists opened, undefined ones left out
  std::vector<double> numbers = {};              // those that a program takes as it runs
  at::Generator generator = {};                  // the one it names, or undefined: the device's
  c10::SmallVector<int64_t, 48> key = {};
  bool is_cacheable = true;

  // Recorded calls: which tensors share memory is not part of the key, common numbers that came as tensors are.
  enum class Keep { run, recorded };
  Call(const c10::OperatorHandle& op, const torch::jit::Stack& stack, Keep keep = Keep::run);
  c10::Device device() const;  // of the results
  uint64_t next_seed() const;  // from its generator

 private:
  void add(const c10::IValue& value, bool may_vary);
  void add(const at::Tensor& tensor);
  void add_memory(const at::Tensor& tensor);
  const Keep keep_ = Keep::run;
};
bool is_part_of_key(const at::Tensor& tensor);  // of a recorded call: a number that programs have written in them

// Throws where an index that is data is out of range; null for ops that take none.
using CheckIndices = void (*)(const std::string& name, c10::ArrayRef<c10::IValue> arguments);
CheckIndices check_of(std::string_view op);

// What is run for a key. Written once, when the key is first met.
struct Entry {
  struct Param {
    enum Kind { tensor, seed, number } kind = tensor;
    int index = 0;
  };
  struct Output {
    std::vector<int64_t> dims = {};
    at::ScalarType dtype = at::kFloat;
    int write = -1;        // the tensor it is written to, or -1: a new one
    bool is_over = false;  // and the program may write straight over an input that has the same memory
  };
  struct Return {
    int argument = -1;  // the argument that is given back, or
    bool is_list = false;
    std::vector<int> outputs = {};  // one, or those of a list; empty: an undefined tensor
  };
  std::shared_ptr<const run::DirectProgram> program = {};  // null: torch's CPU runs it
  CheckIndices check = nullptr;
  std::vector<Param> params = {};
  std::vector<Output> outputs = {};
  std::vector<Return> returns = {};
  int64_t number = -1;     // of a recorded call: what Python knows it by; -1: it cannot be recorded
  bool is_seeded = false;  // of a recorded call: it draws random numbers
};

// Of a key, kept or on the stack.
struct KeyHash {
  using is_transparent = void;
  size_t operator()(c10::ArrayRef<int64_t> key) const {
    uint64_t h = 0xcbf29ce484222325;
    for (int64_t word : key) h = (h ^ uint64_t(word)) * 0x9E3779B97F4A7C15, h ^= h >> 29;
    return size_t(h);
  }
};
struct KeyEqual {
  using is_transparent = void;
  bool operator()(c10::ArrayRef<int64_t> a, c10::ArrayRef<int64_t> b) const { return a == b; }
};
template <class T>
using ByKey = std::unordered_map<std::vector<int64_t>, T, KeyHash, KeyEqual>;

std::shared_ptr<const Entry> make_entry(const Call& call);  // asks Python; in module.cpp
void run_entry(const Entry& entry, const Call& call, torch::jit::Stack& stack);
void run_on_cpu(const Call& call, torch::jit::Stack& stack);
void give_results(const Entry& entry, const Call& call, c10::ArrayRef<at::Tensor> results, torch::jit::Stack& stack);
void check_devices(const Call& call);
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);  // every op without a registration of its own

void count_fallback(const std::string& op);
std::unordered_map<std::string, int64_t> fallbacks();
void clear_cache();
size_t cache_size();

}  // namespace trine::api::neuron
