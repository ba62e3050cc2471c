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
constexpr int kQueriesAtOnce = 12;  // that share keys: as many as two passes of the kernel take

}  // namespace

void Decoder::step(std::span<const TokenRun> runs, KvMemory& kv) {
  rows_.clear();
  for (size_t r = 0; r < runs.size(); ++r)
    for (size_t t = 0; t < runs[r].tokens.size(); ++t) rows_.push_back({int32_t(r), runs[r].start + int32_t(t)});
  const size_t n = rows_.size(), width = size_t(shape_.width), dim = size_t(shape_.head_dim);
  x_.resize(n * width), h_.resize(n * width), y_.resize(n * width);
  q_.resize(n * size_t(shape_.heads) * dim), a_.resize(n * size_t(shape_.heads * shape_.value_dim()));
  k_.resize(n * size_t(shape_.key_heads() * shape_.key_dim()));
  v_.resize(n * size_t(shape_.key_heads() * shape_.value_dim()));
  up_.resize(n * size_t(widest_)), gate_.resize(shape_.gated ? up_.size() : 0);
  embed(runs);
  for (int i = 0; i < int(layers_.size()); ++i) layer_step(runs, i, kv);
  heads(runs);
}

void Decoder::embed(std::span<const TokenRun> runs) {
  const int64_t width = shape_.width, embed = tokens_->inputs(), rows = int64_t(rows_.size());
  if (embed_in_) part_.resize(size_t(rows * embed));
  float* to = embed_in_ ? part_.data() : x_.data();
  parallel_for(rows, kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Row& row = rows_[size_t(i)];
      const TokenRun& run = runs[size_t(row.run)];
      float* x = to + i * embed;
      tokens_->row(run.tokens[size_t(row.position - run.start)], x);
      if (shape_.embed_scale != 1.0f)
        for (int64_t j = 0; j < embed; ++j) x[j] *= shape_.embed_scale;
    }
  });
  if (embed_in_) times({{&embed_in_, x_.data()}}, to, rows, embed);
  if (positions_)
    parallel_for(rows, kRowGrain, [&](int64_t begin, int64_t end) {
      std::vector<float> place(static_cast<size_t>(width));
      for (int64_t i = begin; i < end; ++i) {
        positions_->row(rows_[size_t(i)].position + shape_.position_offset, place.data());
        packed_kernels().add(x_.data() + i * width, place.data(), 1.0f, width);
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

void Decoder::times(std::initializer_list<std::pair<const Dense*, float*>> of, const float* x, int64_t rows,
                    int64_t inputs) {
  host::Times each[3];
  size_t count = 0;
  for (const auto& [layer, out] : of) each[count++] = {layer->w, out, layer->w->outputs()};
  host::multiply({each, count}, x, rows, inputs, inputs, scratch_);
  for (const auto& [layer, out] : of)
    if (const int64_t outputs = layer->w->outputs(); layer->b)
      for (int64_t i = 0; i < rows; ++i) packed_kernels().add(out + i * outputs, layer->b->data(), 1.0f, outputs);
}

// Of all rows, with what each sequence's adapter adds.
void Decoder::project(std::span<const TokenRun> runs, std::initializer_list<std::pair<const Dense*, float*>> of,
                      const float* x, int64_t inputs) {
  times(of, x, int64_t(rows_.size()), inputs);
  for (const auto& [layer, out] : of) {
    const int64_t outputs = layer->w->outputs();
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

void Decoder::rotate(float* heads, int64_t count, int64_t stride, const RopeTable& rope, int32_t position) const {
  const float* cos = rope.cos.data() + int64_t(position) * rope.pairs;
  const float* sin = rope.sin.data() + int64_t(position) * rope.pairs;
  for (int64_t h = 0; h < count; ++h) {
    float *first = heads + h * stride, *second = first + rope.pairs;
    for (int32_t i = 0; i < rope.pairs; ++i) {
      const float a = first[i], b = second[i];
      first[i] = a * cos[i] - b * sin[i], second[i] = b * cos[i] + a * sin[i];
    }
  }
}

// Over all of x, over each head, or over each head by a scale of its own.
void Decoder::norm_heads(const Norm& n, float* x, int64_t size) const {
  const int64_t each = shape_.qk_norm == "whole" ? size : shape_.head_dim;
  const bool own = shape_.qk_norm == "own";
  for (int64_t at = 0; n.scale && at < size; at += each)
    packed_kernels().norm(x + at, each, shape_.eps, shape_.centred || n.bias, shape_.plus_one,
                          n.scale->data() + (own ? at : 0), n.bias ? n.bias->data() + (own ? at : 0) : nullptr, x + at);
}

// Keys and values of one token into their page.
void Decoder::put(std::span<const TokenRun> runs, const Row& row, int index, const float* k, const float* v,
                  KvMemory& kv) const {
  const int64_t dim = shape_.key_dim(), wide = shape_.value_dim(), heads = shape_.key_heads();
  const int32_t page = runs[size_t(row.run)].pages[size_t(row.position / kPageTokens)];
  const int64_t slot = row.position % kPageTokens;
  thread_local std::vector<uint16_t> half;
  half.resize(size_t(std::max(dim, wide)));
  for (int64_t h = 0; h < heads; ++h) {
    std::byte* to = kv.page(page).data() + layer_at_[size_t(index)] + h * shape_.head_bytes();
    packed_kernels().to_half(k + h * dim, dim, half.data());
    for (int64_t d = 0; d < dim; ++d) std::memcpy(to + (d * kPageTokens + slot) * 2, &half[size_t(d)], 2);
    packed_kernels().to_half(v + h * wide, wide, half.data());
    std::memcpy(to + shape_.values_at() + slot * wide * 2, half.data(), size_t(wide) * 2);
  }
}

// Norms and turns queries and keys, and puts keys and values into their pages.
void Decoder::keep(std::span<const TokenRun> runs, int index, KvMemory& kv) {
  const Layer& l = layers_[size_t(index)];
  const int64_t dim = shape_.head_dim, keys = shape_.kv_heads * dim, queries = shape_.heads * dim;
  const bool after = shape_.qk_norm == "after";
  const auto clipped = [&](float* x, int64_t size) {
    for (int64_t i = 0; i < size; ++i) x[i] = std::clamp(x[i], -shape_.clip, shape_.clip);
  };
  parallel_for(int64_t(rows_.size()), kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Row& row = rows_[size_t(i)];
      float *q = q_.data() + i * queries, *k = k_.data() + i * keys, *v = v_.data() + i * keys;
      if (shape_.clip != 0.0f) clipped(q, queries), clipped(k, keys), clipped(v, keys);
      if (!after) norm_heads(l.q_norm, q, queries), norm_heads(l.k_norm, k, keys);
      if (const int32_t rope = shape_.layers[size_t(index)].rope; rope >= 0) {
        rotate(q, shape_.heads, dim, shape_.ropes[size_t(rope)], row.position);
        rotate(k, shape_.kv_heads, dim, shape_.ropes[size_t(rope)], row.position);
      }
      if (after) norm_heads(l.q_norm, q, queries), norm_heads(l.k_norm, k, keys);
      put(runs, row, index, k, v, kv);
    }
  });
}

// Queries over pages. An item is some queries that share keys: heads of one token, or of a few that follow.
void Decoder::attend(std::span<const TokenRun> runs, int index, const KvMemory& kv) {
  struct Item {
    int32_t run, row, count, head, first, heads;  // `count` tokens from row, `heads` of a key head's group from first
  };
  std::vector<Item> items;
  const int32_t key_heads = shape_.key_heads(), group = shape_.heads / key_heads;
  const int32_t at_once = std::max(1, kQueriesAtOnce / group), part = std::min(group, int32_t{kQueriesAtOnce});
  int32_t row = 0;
  for (int32_t r = 0; r < int32_t(runs.size()); ++r) {
    const int32_t tokens = int32_t(runs[size_t(r)].tokens.size());
    for (int32_t t = 0; t < tokens; t += at_once)
      for (int32_t h = 0; h < key_heads; ++h)
        for (int32_t g = 0; g < group; g += part)
          items.push_back({r, row + t, std::min(at_once, tokens - t), h, g, std::min(part, group - g)});
    row += tokens;
  }
  const std::vector<float>& from_q = shape_.latent.rank ? wide_q_ : q_;
  const int64_t dim = shape_.key_dim(), wide = shape_.value_dim(), head_bytes = shape_.head_bytes();
  const Layer& l = layers_[size_t(index)];
  parallel_for(int64_t(items.size()), 1, [&](int64_t begin, int64_t end) {
    thread_local std::vector<float> scratch;
    thread_local std::vector<const std::byte*> pages;
    for (int64_t i = begin; i < end; ++i) {
      const Item& item = items[size_t(i)];
      const TokenRun& run = runs[size_t(item.run)];
      const int32_t last = rows_[size_t(item.row + item.count - 1)].position;
      const int64_t used = last / kPageTokens + 1, count = int64_t(item.count) * item.heads;
      pages.resize(size_t(used)), scratch.resize(size_t(count * used * kPageTokens));
      for (int64_t p = 0; p < used; ++p)
        pages[size_t(p)] = kv.page(run.pages[size_t(p)]).data() + layer_at_[size_t(index)] + item.head * head_bytes;
      std::vector<const float*> from(static_cast<size_t>(count));
      std::vector<float*> to(static_cast<size_t>(count));
      std::vector<int32_t> positions(static_cast<size_t>(count));
      std::vector<const float*> biases;
      std::vector<float> sinks;
      for (int64_t c = 0; c < count; ++c) {
        const int64_t of = item.row + c / item.heads;
        const int64_t head = int64_t(item.head) * group + item.first + c % item.heads;
        from[size_t(c)] = from_q.data() + (of * shape_.heads + head) * dim;
        to[size_t(c)] = a_.data() + (of * shape_.heads + head) * wide;
        positions[size_t(c)] = rows_[size_t(of)].position;
        if (!shape_.biases.empty()) biases.push_back(shape_.biases.data() + head * shape_.context);
        if (l.sinks) sinks.push_back((*l.sinks)[size_t(head)]);
      }
      const float scale = shape_.score_scale != 0.0f ? shape_.score_scale : 1.0f / std::sqrt(float(shape_.head_dim));
      packed_kernels().attend({from.data(), to.data(), positions.data(), biases.empty() ? nullptr : biases.data(),
                               sinks.empty() ? nullptr : sinks.data(), int(count), int(dim), int(wide), pages.data(),
                               shape_.values_at(), scale, shape_.score_cap, shape_.layers[size_t(index)].window,
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

// What a layer mixes tokens by.
void Decoder::mixed(std::span<const TokenRun> runs, int index, const float* x, float* y, KvMemory& kv) {
  switch (shape_.layers[size_t(index)].mixer) {
    case Mixer::latent:
      return latent(runs, index, x, y, kv);
    case Mixer::convolution:
      return convolution(runs, index, x, y, kv);
    case Mixer::state:
      return space(runs, index, x, y, kv);
    case Mixer::recurrence:
      return recurrence(runs, index, x, y, kv);
    case Mixer::both:
      return beside(runs, index, x, y, kv);
    case Mixer::attention:
      return attention(runs, index, x, y, kv);
  }
}

// xIELU: a parabola above zero, a bent exponential below.
static void bend(float* x, int64_t count, float up, float down) {
  for (int64_t i = 0; i < count; ++i) {
    const float v = x[i];
    x[i] = 0.5f * v + (v > 0 ? up * v * v : (std::expm1(std::min(v, -1e-6f)) - v) * (0.5f + down));
  }
}

float* Decoder::activated(const Mlp& mlp, int64_t rows, int64_t ffn) {
  float* inner = shape_.gated ? gate_.data() : up_.data();
  const float most = shape_.gate_limit;
  parallel_for(rows, kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float *gate = inner + i * ffn, *up = up_.data() + i * ffn;
      if (shape_.mlp_scales[0] != 1.0f)
        for (int64_t j = 0; j < ffn; ++j) gate[j] *= shape_.mlp_scales[0];
      if (most != 0.0f)
        for (int64_t j = 0; j < ffn; ++j)
          gate[j] = std::min(gate[j], most), up[j] = std::clamp(up[j], -most, most) + 1.0f;
      if (mlp.bend_up)
        bend(gate, ffn, std::log1p(std::exp(mlp.bend_up->front())), std::log1p(std::exp(mlp.bend_down->front())));
      else
        packed_kernels().activate(shape_.activation, gate, shape_.gated ? up : nullptr, ffn);
    }
  });
  return inner;
}

void Decoder::feed_forward(std::span<const TokenRun> runs, int index, const float* x, float* y) {
  const Layer& l = layers_[size_t(index)];
  if (!l.experts.empty()) return mixture(runs, index, x, y);
  if (shape_.gated)
    project(runs, {{&l.mlp.gate, gate_.data()}, {&l.mlp.up, up_.data()}}, x, shape_.width);
  else
    project(runs, {{&l.mlp.up, up_.data()}}, x, shape_.width);
  const int64_t ffn = shape_.layers[size_t(index)].ffn;
  project(runs, {{&l.mlp.down, y}}, activated(l.mlp, int64_t(rows_.size()), ffn), ffn);
  if (shape_.mlp_scales[1] != 1.0f)
    for (size_t i = 0; i < rows_.size() * size_t(shape_.width); ++i) y[i] *= shape_.mlp_scales[1];
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
    mixed(runs, index, h, y, kv);
    if (shape_.norms == 2) normed(l.norm2, x, h, width);
    add(x, y, 1.0f);
    feed_forward(runs, index, h, y);
    add(x, y, 1.0f);
    return;
  }
  const bool before = shape_.block == Block::pre || shape_.block == Block::sandwich;
  const auto half = [&](const Norm& first, const Norm& after, auto&& part) {
    if (before && first.scale) normed(first, x, h, width);
    part(before && first.scale ? h : x, y);
    if (shape_.block == Block::normed) normed(first, y, y, width);
    if (shape_.block == Block::sandwich) normed(after, y, y, width);
    add(x, y, before ? shape_.residual : 1.0f);
    if (shape_.block == Block::post) normed(first, x, x, width);
  };
  half(l.norm1, l.after1, [&](const float* from, float* to) { mixed(runs, index, from, to, kv); });
  if (!shape_.layers[size_t(index)].ffn) return;
  half(l.norm2, l.after2, [&](const float* from, float* to) { feed_forward(runs, index, from, to); });
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
  if (embed_out_) {
    part_.resize(size_t(rows * shape_.embed));
    times({{&embed_out_, part_.data()}}, last_.data(), rows, width);
  }
  times({{&head_, logits_.data()}}, embed_out_ ? part_.data() : last_.data(), rows, head_.w->inputs());
  if (shape_.logit_cap != 0.0f)
    for (float& v : logits_) v = shape_.logit_cap * std::tanh(v / shape_.logit_cap);
}

}  // namespace trine::run
