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
  static Decoder of_shape(DecoderShape shape);  // without weights: `blank` in place of `step`

  const DecoderShape& shape() const { return shape_; }
  int64_t weight_bytes() const { return weights_.bytes(); }
  Result<void> check(const Adapter& adapter) const;  // its shapes are those of the layers it names

  // Logits of the runs that want some, row after row (`logits`), and states of those that want one (`states`).
  void step(std::span<const TokenRun> runs, KvMemory& kv);
  void blank(std::span<const TokenRun> runs);  // logits and states of a model that knows nothing: zeros
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
  struct Mlp {
    Dense gate, up, down;
    const std::vector<float>* bend_up = nullptr;  // xIELU: a learned number each, in the activation's place
    const std::vector<float>* bend_down = nullptr;
  };
  struct Taps {
    const std::vector<float>*w = nullptr, *b = nullptr;  // kernel × channels
    int64_t kernel = 0, channels = 0;
  };
  // What stands in attention's place, or beside it. `into` and `out` are what goes in and out of a state; of kind 1
  // both and the steps come from `into`.
  struct Mix {
    Dense x, z, into, out, steps, o;
    Taps conv, conv_in, conv_out;
    std::vector<float> rates;  // as decays are made of them
    const std::vector<float>*d = nullptr, *step_bias = nullptr;
    Norm norm;
    std::vector<Dense> gates_in, gates_decay;  // of a recurrence, of each head
  };
  // Where a run's state is read from, and after which of its tokens it is written.
  struct Carry {
    int64_t row, count, start;
    const float* before;
    std::vector<std::pair<int64_t, float*>> saves;
  };
  struct Layer {
    Dense q, k, v, o;
    Mix mix;
    Mlp mlp, shared;
    Dense router, shared_gate;
    std::vector<Mlp> experts;
    Dense q_down, kv_down;
    std::vector<Dense> k_up, v_up;  // latent: of each head
    Norm norm1, norm2, after1, after2, q_norm, k_norm, kv_norm;
    const std::vector<float>*sinks = nullptr, *correction = nullptr;
  };
  struct Row {
    int32_t run, position;
  };

  Result<Dense> dense(const std::string& name, int64_t outputs, int64_t inputs, bool needed) const;
  Result<Norm> norm(const std::string& name, int64_t width, bool needed) const;
  Result<const std::vector<float>*> vector(const std::string& name, int64_t size) const;  // null: not there
  Result<Mlp> mlp(const std::string& at, const std::string& end, int64_t ffn) const;
  Result<void> attention_mix(Layer& layer, const std::string& at) const;
  Result<Taps> taps(const std::string& name, int64_t kernel, int64_t channels) const;
  Result<void> state_mix(Mix& mix, const std::string& at) const;
  Result<void> convolution_mix(Mix& mix, const std::string& at) const;
  Result<void> recurrence_mix(Mix& mix, const std::string& at) const;
  Result<void> mix(Layer& layer, Mixer mixer, const std::string& at) const;
  Result<void> latent_mix(Layer& layer, const std::string& at) const;
  Result<void> feed(Layer& layer, const LayerShape& shape, const std::string& at) const;
  Result<Layer> layer(int i) const;
  void embed(std::span<const TokenRun> runs);
  void normed(const Norm& n, const float* x, float* y, int64_t width);
  void times(std::initializer_list<std::pair<const Dense*, float*>> of, const float* x, int64_t rows, int64_t inputs);
  void project(std::span<const TokenRun> runs, std::initializer_list<std::pair<const Dense*, float*>> of,
               const float* x, int64_t inputs);
  void rotate(float* heads, int64_t count, int64_t stride, const RopeTable& rope, int32_t position) const;
  void norm_heads(const Norm& n, float* x, int64_t size) const;
  void put(std::span<const TokenRun> runs, const Row& row, int layer, const float* k, const float* v,
           KvMemory& kv) const;
  void keep(std::span<const TokenRun> runs, int layer, KvMemory& kv);
  void attend(std::span<const TokenRun> runs, int layer, const KvMemory& kv);
  void attention(std::span<const TokenRun> runs, int layer, const float* x, float* y, KvMemory& kv);
  void latent(std::span<const TokenRun> runs, int layer, const float* x, float* y, KvMemory& kv);
  void latent_queries(std::span<const TokenRun> runs, int layer, const float* x);
  void mixed(std::span<const TokenRun> runs, int layer, const float* x, float* y, KvMemory& kv);
  std::vector<Carry> carries(std::span<const TokenRun> runs, int layer, KvMemory& kv) const;
  void convolve(const std::vector<Carry>& all, const Taps& taps, int64_t at, float* x) const;
  template <class Fn>
  void scan(const std::vector<Carry>& all, int64_t channels, int64_t each, int64_t at, Fn&& token) const;
  void activate_rows(float* x, int64_t size) const;
  void convolution(std::span<const TokenRun> runs, int layer, const float* x, float* y, KvMemory& kv);
  void space(std::span<const TokenRun> runs, int layer, const float* x, float* y, KvMemory& kv);
  void by_channel(std::span<const TokenRun> runs, const Mix& m, const std::vector<Carry>& all);
  void by_head(const Mix& m, const std::vector<Carry>& all);
  void gate_norm(const Mix& m);
  void recurrence(std::span<const TokenRun> runs, int layer, const float* x, float* y, KvMemory& kv);
  void beside(std::span<const TokenRun> runs, int layer, const float* x, float* y, KvMemory& kv);
  float* activated(const Mlp& mlp, int64_t rows, int64_t ffn);  // what goes into `down`, of gate_ and up_
  void feed_forward(std::span<const TokenRun> runs, int layer, const float* x, float* y);
  void mixture(std::span<const TokenRun> runs, int layer, const float* x, float* y);
  void expert(const Mlp& m, int64_t ffn, const float* x, int64_t rows, float* y);
  void share(std::span<const TokenRun> runs, int layer, const float* x, float* y);
  void layer_step(std::span<const TokenRun> runs, int layer, KvMemory& kv);
  void heads(std::span<const TokenRun> runs);

  DecoderShape shape_;
  DecoderWeights weights_;
  std::vector<Layer> layers_;
  Norm norm_, embed_norm_;
  Dense head_, embed_in_, embed_out_;
  int64_t widest_ = 0;             // of all MLPs
  std::vector<int64_t> layer_at_;  // where a layer begins in a page
  const host::PackedMatrix* tokens_ = nullptr;
  const host::PackedMatrix* positions_ = nullptr;

  // Of a step.
  std::vector<Row> rows_;
  std::vector<float> x_, h_, y_, q_, k_, v_, a_, up_, gate_, last_, logits_, states_, low_, added_;
  std::vector<float> scores_, shares_, gathered_, part_;  // of experts
  std::vector<int32_t> chosen_;
  std::vector<float> wide_q_, narrow_q_, mixed_;                            // of latent attention
  std::vector<float> in_, gate_z_, mixed_in_, mixed_out_, steps_, scaled_;  // of states
  host::MultiplyScratch scratch_;
};

}  // namespace trine::run
