// Small decoders with random weights, for tests of the engine.
#pragma once

#include <cmath>
#include <random>

#include "run/decoder/decoder.h"
#include "tests/testing.h"

namespace trine::serve {

inline host::PackedMatrix random_matrix(std::mt19937& random, int64_t outputs, int64_t inputs) {
  std::normal_distribution<float> normal(0.0f, 1.0f / std::sqrt(float(inputs)));
  std::vector<float> values(size_t(outputs * inputs));
  for (float& v : values) v = normal(random);
  auto made = host::PackedMatrix::make(host::Packed::f32, outputs, inputs, std::as_bytes(std::span(values)));
  REQUIRE(made);
  return *std::move(made);
}

// Two layers, grouped heads, rotary positions.
inline run::Decoder random_decoder(unsigned seed, int32_t context = 256) {
  std::mt19937 random(seed);
  run::DecoderShape s;
  s.width = 64, s.heads = 4, s.kv_heads = 2, s.head_dim = 16, s.vocab = 97, s.context = context;
  s.layers.assign(2, {0, 0, 96, 0});
  run::RopeTable rope{8, {}, {}};
  for (int32_t p = 0; p < context; ++p)
    for (int i = 0; i < 8; ++i) {
      const float angle = float(p) * std::pow(100.0f, -float(i) / 8);
      rope.cos.push_back(std::cos(angle)), rope.sin.push_back(std::sin(angle));
    }
  s.ropes.push_back(rope);
  run::DecoderWeights w;
  w.matrices.emplace("tokens", random_matrix(random, s.vocab, s.width));
  w.matrices.emplace("head", random_matrix(random, s.vocab, s.width));
  w.vectors["norm.scale"] = std::vector<float>(size_t(s.width), 3.0f);
  for (int i = 0; i < 2; ++i) {
    const std::string at = "layers." + std::to_string(i) + ".";
    w.vectors[at + "norm1.scale"] = w.vectors[at + "norm2.scale"] = std::vector<float>(size_t(s.width), 1.0f);
    w.matrices.emplace(at + "q", random_matrix(random, 64, 64)),
        w.matrices.emplace(at + "k", random_matrix(random, 32, 64));
    w.matrices.emplace(at + "v", random_matrix(random, 32, 64)),
        w.matrices.emplace(at + "o", random_matrix(random, 64, 64));
    w.matrices.emplace(at + "gate", random_matrix(random, 96, 64)),
        w.matrices.emplace(at + "up", random_matrix(random, 96, 64));
    w.matrices.emplace(at + "down", random_matrix(random, 64, 96));
  }
  auto made = run::Decoder::make(std::move(s), std::move(w));
  REQUIRE(made);
  return *std::move(made);
}

}  // namespace trine::serve
