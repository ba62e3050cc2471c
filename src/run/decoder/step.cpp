// A step of the decoder, layer by layer. Every loop over rows is a row's own work: nothing is summed across rows.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/pool.h"
#include "run/decoder/decoder.h"

namespace trine::run {

using host::kPageTokens;
using host::packed_kernels;

namespace {

constexpr int64_t kRowGrain = 8;    // rows whose norms, turns and activations go to a thread together
constexpr int kQueriesAtOnce = 12;  // of heads that share keys: as many as two passes of the kernel take

}  // namespace

void Decoder::step(std::span<const TokenRun> runs, KvMemory& kv) {
  rows_.clear();
  for (size_t r = 0; r < runs.size(); ++r)
    for (size_t t = 0; t < runs[r].tokens.size(); ++t) rows_.push_back({int32_t(r), runs[r].start + int32_t(t)});
  const size_t n = rows_.size(), width = size_t(shape_.width), dim = size_t(shape_.head_dim);
  x_.resize(n * width), h_.resize(n * width), y_.resize(n * width);
  q_.resize(n * size_t(shape_.heads) * dim), a_.resize(q_.size());
  k_.resize(n * size_t(shape_.kv_heads) * dim), v_.resize(k_.size());
  up_.resize(n * size_t(shape_.ffn)), gate_.resize(shape_.gated ? up_.size() : 0);
  embed(runs);
  for (int i = 0; i < int(layers_.size()); ++i) layer_step(runs, i, kv);
  heads(runs);
}

void Decoder::embed(std::span<const TokenRun> runs) {
  const int64_t width = shape_.width;
  parallel_for(int64_t(rows_.size()), kRowGrain, [&](int64_t begin, int64_t end) {
    std::vector<float> place(size_t(positions_ ? width : 0));
    for (int64_t i = begin; i < end; ++i) {
      const Row& row = rows_[size_t(i)];
      const TokenRun& run = runs[size_t(row.run)];
      float* x = x_.data() + i * width;
      tokens_->row(run.tokens[size_t(row.position - run.start)], x);
      if (shape_.embed_scale != 1.0f)
        for (int64_t j = 0; j < width; ++j) x[j] *= shape_.embed_scale;
      if (positions_) {
        positions_->row(row.position + shape_.position_offset, place.data());
        packed_kernels().add(x, place.data(), 1.0f, width);
      }
    }
  });
  if (embed_norm_.scale) normed(embed_norm_, x_.data(), x_.data(), width);
}

void Decoder::normed(const Norm& n, const float* x, float* y, int64_t width) {
  const int64_t rows = int64_t(rows_.size());
  parallel_for(rows, kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      packed_kernels().norm(x + i * width, width, shape_.eps, shape_.centred || n.bias, shape_.plus_one,
                            n.scale ? n.scale->data() : nullptr, n.bias ? n.bias->data() : nullptr, y + i * width);
  });
}

void Decoder::project(std::span<const TokenRun> runs, std::initializer_list<std::pair<const Dense*, float*>> of,
                      const float* x, int64_t inputs) {
  host::Times times[3];
  size_t count = 0;
  for (const auto& [layer, out] : of) times[count++] = {layer->w, out, layer->w->outputs()};
  const int64_t rows = int64_t(rows_.size());
  host::multiply({times, count}, x, rows, inputs, inputs, scratch_);
  for (const auto& [layer, out] : of) {
    const int64_t outputs = layer->w->outputs();
    if (layer->b)
      for (int64_t i = 0; i < rows; ++i) packed_kernels().add(out + i * outputs, layer->b->data(), 1.0f, outputs);
    int64_t at = 0;
    for (const TokenRun& run : runs) {
      const int64_t own = int64_t(run.tokens.size());
      const auto low =
          run.adapter ? run.adapter->layers.find(layer->name) : decltype(run.adapter->layers.find(layer->name)){};
      if (run.adapter && low != run.adapter->layers.end()) {
        const auto& [a, b] = low->second;
        low_.resize(size_t(own * a.outputs())), added_.resize(size_t(own * outputs));
        const host::Times down{&a, low_.data(), a.outputs()}, up{&b, added_.data(), outputs};
        host::multiply({&down, 1}, x + at * inputs, own, inputs, inputs, scratch_);
        host::multiply({&up, 1}, low_.data(), own, a.outputs(), a.outputs(), scratch_);
        packed_kernels().add(out + at * outputs, added_.data(), run.adapter->scale, own * outputs);
      }
      at += own;
    }
  }
}

void Decoder::rotate(float* heads, int64_t count, const RopeTable& rope, int32_t position) const {
  const float* cos = rope.cos.data() + int64_t(position) * rope.pairs;
  const float* sin = rope.sin.data() + int64_t(position) * rope.pairs;
  for (int64_t h = 0; h < count; ++h) {
    float *first = heads + h * shape_.head_dim, *second = first + rope.pairs;
    for (int32_t i = 0; i < rope.pairs; ++i) {
      const float a = first[i], b = second[i];
      first[i] = a * cos[i] - b * sin[i], second[i] = b * cos[i] + a * sin[i];
    }
  }
}

// Norms and turns queries and keys, and puts keys and values into their pages.
void Decoder::keep(std::span<const TokenRun> runs, int index, KvMemory& kv) {
  const Layer& l = layers_[size_t(index)];
  const int64_t dim = shape_.head_dim, keys = shape_.kv_heads * dim, queries = shape_.heads * dim;
  const int64_t head_bytes = shape_.head_bytes(), values_at = head_bytes / 2;
  const bool whole = shape_.qk_norm == "whole";
  const auto norm_heads = [&](const Norm& n, float* x, int64_t size) {
    const int64_t each = whole ? size : dim;
    for (int64_t at = 0; n.scale && at < size; at += each)
      packed_kernels().norm(x + at, each, shape_.eps, shape_.centred || n.bias, shape_.plus_one, n.scale->data(),
                            n.bias ? n.bias->data() : nullptr, x + at);
  };
  parallel_for(int64_t(rows_.size()), kRowGrain, [&](int64_t begin, int64_t end) {
    std::vector<uint16_t> half(static_cast<size_t>(dim));
    for (int64_t i = begin; i < end; ++i) {
      const Row& row = rows_[size_t(i)];
      float *q = q_.data() + i * queries, *k = k_.data() + i * keys;
      const float* v = v_.data() + i * keys;
      norm_heads(l.q_norm, q, queries), norm_heads(l.k_norm, k, keys);
      if (const int32_t rope = shape_.layers[size_t(index)].rope; rope >= 0) {
        rotate(q, shape_.heads, shape_.ropes[size_t(rope)], row.position);
        rotate(k, shape_.kv_heads, shape_.ropes[size_t(rope)], row.position);
      }
      const int32_t page = runs[size_t(row.run)].pages[size_t(row.position / kPageTokens)];
      const int64_t slot = row.position % kPageTokens;
      for (int64_t h = 0; h < shape_.kv_heads; ++h) {
        std::byte* to = kv.page(page).data() + (index * int64_t(shape_.kv_heads) + h) * head_bytes;
        packed_kernels().to_half(k + h * dim, dim, half.data());
        for (int64_t d = 0; d < dim; ++d) std::memcpy(to + (d * kPageTokens + slot) * 2, &half[size_t(d)], 2);
        packed_kernels().to_half(v + h * dim, dim, half.data());
        std::memcpy(to + values_at + slot * dim * 2, half.data(), size_t(dim) * 2);
      }
    }
  });
}

void Decoder::attend(std::span<const TokenRun> runs, int index, const KvMemory& kv) {
  struct Item {
    int32_t run, row, count, head;
  };
  std::vector<Item> items;
  const int32_t group = shape_.heads / shape_.kv_heads, at_once = std::max(1, kQueriesAtOnce / group);
  int32_t row = 0;
  for (int32_t r = 0; r < int32_t(runs.size()); ++r) {
    const int32_t tokens = int32_t(runs[size_t(r)].tokens.size());
    for (int32_t t = 0; t < tokens; t += at_once)
      for (int32_t h = 0; h < shape_.kv_heads; ++h) items.push_back({r, row + t, std::min(at_once, tokens - t), h});
    row += tokens;
  }
  const int64_t dim = shape_.head_dim, queries = shape_.heads * dim, head_bytes = shape_.head_bytes();
  const Layer& l = layers_[size_t(index)];
  parallel_for(int64_t(items.size()), 1, [&](int64_t begin, int64_t end) {
    thread_local std::vector<float> scratch;
    thread_local std::vector<const std::byte*> pages;
    for (int64_t i = begin; i < end; ++i) {
      const Item& item = items[size_t(i)];
      const TokenRun& run = runs[size_t(item.run)];
      const int32_t last = rows_[size_t(item.row + item.count - 1)].position;
      const int64_t used = last / kPageTokens + 1, count = int64_t(item.count) * group;
      pages.resize(size_t(used)), scratch.resize(size_t(count * used * kPageTokens));
      for (int64_t p = 0; p < used; ++p)
        pages[size_t(p)] =
            kv.page(run.pages[size_t(p)]).data() + (index * int64_t(shape_.kv_heads) + item.head) * head_bytes;
      std::vector<const float*> from(static_cast<size_t>(count));
      std::vector<float*> to(static_cast<size_t>(count));
      std::vector<int32_t> positions(static_cast<size_t>(count));
      std::vector<float> slopes, sinks;
      for (int64_t c = 0; c < count; ++c) {
        const int64_t of = item.row + c / group, head = int64_t(item.head) * group + c % group;
        from[size_t(c)] = q_.data() + of * queries + head * dim, to[size_t(c)] = a_.data() + of * queries + head * dim;
        positions[size_t(c)] = rows_[size_t(of)].position;
        if (!shape_.slopes.empty()) slopes.push_back(shape_.slopes[size_t(head)]);
        if (l.sinks) sinks.push_back((*l.sinks)[size_t(head)]);
      }
      const float scale = shape_.score_scale != 0.0f ? shape_.score_scale : 1.0f / std::sqrt(float(dim));
      packed_kernels().attend({from.data(), to.data(), positions.data(), slopes.empty() ? nullptr : slopes.data(),
                               sinks.empty() ? nullptr : sinks.data(), int(count), int(dim), pages.data(),
                               head_bytes / 2, scale, shape_.score_cap, shape_.layers[size_t(index)].window,
                               scratch.data(), used * kPageTokens});
    }
  });
}

void Decoder::attention(std::span<const TokenRun> runs, int index, const float* x, float* y, KvMemory& kv) {
  const Layer& l = layers_[size_t(index)];
  project(runs, {{&l.q, q_.data()}, {&l.k, k_.data()}, {&l.v, v_.data()}}, x, shape_.width);
  keep(runs, index, kv);
  attend(runs, index, kv);
  project(runs, {{&l.o, y}}, a_.data(), int64_t(shape_.heads) * shape_.head_dim);
}

void Decoder::mlp(std::span<const TokenRun> runs, int index, const float* x, float* y) {
  const Layer& l = layers_[size_t(index)];
  if (shape_.gated)
    project(runs, {{&l.gate, gate_.data()}, {&l.up, up_.data()}}, x, shape_.width);
  else
    project(runs, {{&l.up, up_.data()}}, x, shape_.width);
  float* inner = shape_.gated ? gate_.data() : up_.data();
  parallel_for(int64_t(rows_.size()), kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      packed_kernels().activate(shape_.activation, inner + i * shape_.ffn,
                                shape_.gated ? up_.data() + i * shape_.ffn : nullptr, shape_.ffn);
  });
  project(runs, {{&l.down, y}}, inner, shape_.ffn);
}

void Decoder::layer_step(std::span<const TokenRun> runs, int index, KvMemory& kv) {
  const Layer& l = layers_[size_t(index)];
  const int64_t width = shape_.width;
  float *x = x_.data(), *h = h_.data(), *y = y_.data();
  const auto add = [&](float* to, const float* from, float by) {
    parallel_for(int64_t(rows_.size()), 4 * kRowGrain, [&](int64_t begin, int64_t end) {
      packed_kernels().add(to + begin * width, from + begin * width, by, (end - begin) * width);
    });
  };
  if (shape_.block == Block::parallel) {
    normed(l.norm1, x, h, width);
    attention(runs, index, h, y, kv);
    if (shape_.norms == 2) normed(l.norm2, x, h, width);
    add(x, y, 1.0f);
    mlp(runs, index, h, y);
    add(x, y, 1.0f);
    return;
  }
  const bool before = shape_.block == Block::pre || shape_.block == Block::sandwich;
  const auto half = [&](const Norm& first, const Norm& after, auto&& part) {
    if (before && first.scale) normed(first, x, h, width);
    part(before && first.scale ? h : x, y);
    if (shape_.block == Block::normed) normed(first, y, y, width);
    if (shape_.block == Block::sandwich) normed(after, y, y, width);
    add(x, y, shape_.block == Block::pre ? shape_.residual : 1.0f);
    if (shape_.block == Block::post) normed(first, x, x, width);
  };
  half(l.norm1, l.after1, [&](const float* from, float* to) { attention(runs, index, from, to, kv); });
  half(l.norm2, l.after2, [&](const float* from, float* to) { mlp(runs, index, from, to); });
}

void Decoder::heads(std::span<const TokenRun> runs) {
  const int64_t width = shape_.width;
  last_.clear(), states_.clear();
  int64_t at = 0, rows = 0;
  std::vector<float> state(static_cast<size_t>(width));
  for (const TokenRun& run : runs) {
    const int64_t own = int64_t(run.tokens.size());
    const int64_t first = run.wanted == Wanted::all ? 0 : run.wanted == Wanted::nothing ? own : own - 1;
    for (int64_t i = first; i < own; ++i) {
      const float* x = x_.data() + (at + i) * width;
      if (norm_.scale)
        packed_kernels().norm(x, width, shape_.eps, shape_.centred || norm_.bias, shape_.plus_one, norm_.scale->data(),
                              norm_.bias ? norm_.bias->data() : nullptr, state.data());
      else
        std::copy(x, x + width, state.begin());
      for (float& s : state) s *= shape_.head_scale;
      auto& to = run.wanted == Wanted::state ? states_ : last_;
      to.insert(to.end(), state.begin(), state.end());
      rows += run.wanted != Wanted::state;
    }
    at += own;
  }
  logits_.resize(size_t(rows * shape_.vocab));
  if (!rows) return;
  const host::Times times{head_.w, logits_.data(), shape_.vocab};
  host::multiply({&times, 1}, last_.data(), rows, width, width, scratch_);
  for (int64_t r = 0; r < rows && head_.b; ++r)
    packed_kernels().add(logits_.data() + r * shape_.vocab, head_.b->data(), 1.0f, shape_.vocab);
  if (shape_.logit_cap != 0.0f)
    for (float& v : logits_) v = shape_.logit_cap * std::tanh(v / shape_.logit_cap);
}

}  // namespace trine::run
