// Runs a step: some tokens of some sequences through the decoder, reading and writing their pages.
// Not a scheduler: which tokens, and which pages they have, is given. One step at a time.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "host/packed/multiply.h"
#include "run/decoder/pages.h"
#include "run/decoder/shape.h"
#include "run/decoder/weights.h"

namespace trine::run {

enum class Wanted : uint8_t { nothing, last, all, state };  // logits of no row, the last, all; the last's final state

// Tokens of one sequence that follow one another.
struct TokenRun {
  std::span<const int32_t> tokens;
  int32_t start = 0;               // position of the first
  std::span<const int32_t> pages;  // of the sequence, up to its last token here
  const Adapter* adapter = nullptr;
  Wanted wanted = Wanted::last;
};

class Decoder {
 public:
  static Result<Decoder> make(DecoderShape shape, DecoderWeights weights);

  const DecoderShape& shape() const { return shape_; }
  int64_t weight_bytes() const { return weights_.bytes(); }
  Result<void> check(const Adapter& adapter) const;  // its shapes are those of the layers it names

  // Logits of the runs that want some, row after row (`logits`), and states of those that want one (`states`).
  void step(std::span<const TokenRun> runs, KvMemory& kv);
  std::span<const float> logits() const { return logits_; }
  std::span<const float> states() const { return states_; }

 private:
  struct Dense {
    const host::PackedMatrix* w = nullptr;
    const std::vector<float>* b = nullptr;
    std::string name;
    explicit operator bool() const { return w != nullptr; }
  };
  struct Norm {
    const std::vector<float>*scale = nullptr, *bias = nullptr;
  };
  struct Layer {
    Dense q, k, v, o, gate, up, down;
    Norm norm1, norm2, after1, after2, q_norm, k_norm;
    const std::vector<float>* sinks = nullptr;
  };
  struct Row {
    int32_t run, position;
  };

  Result<Dense> dense(const std::string& name, int64_t outputs, int64_t inputs, bool needed) const;
  Result<Norm> norm(const std::string& name, int64_t width, bool needed) const;
  Result<Layer> layer(int i) const;
  void embed(std::span<const TokenRun> runs);
  void normed(const Norm& n, const float* x, float* y, int64_t width);
  void project(std::span<const TokenRun> runs, std::initializer_list<std::pair<const Dense*, float*>> of,
               const float* x, int64_t inputs);
  void rotate(float* heads, int64_t count, const RopeTable& rope, int32_t position) const;
  void keep(std::span<const TokenRun> runs, int layer, KvMemory& kv);
  void attend(std::span<const TokenRun> runs, int layer, const KvMemory& kv);
  void attention(std::span<const TokenRun> runs, int layer, const float* x, float* y, KvMemory& kv);
  void mlp(std::span<const TokenRun> runs, int layer, const float* x, float* y);
  void layer_step(std::span<const TokenRun> runs, int layer, KvMemory& kv);
  void heads(std::span<const TokenRun> runs);

  DecoderShape shape_;
  DecoderWeights weights_;
  std::vector<Layer> layers_;
  Norm norm_, embed_norm_;
  Dense head_;
  const host::PackedMatrix* tokens_ = nullptr;
  const host::PackedMatrix* positions_ = nullptr;

  // Of a step.
  std::vector<Row> rows_;
  std::vector<float> x_, h_, y_, q_, k_, v_, a_, up_, gate_, last_, logits_, states_, low_, added_;
  host::MultiplyScratch scratch_;
};

}  // namespace trine::run
