// The order of passes, their pieces one after the other with what they receive and send, and the time of many batches.
#include "sim/cluster/pipeline.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace trine::sim {

namespace {

// The k-th pass forward of a stage, of batches in rounds of as many as there are stages; backward from the last chunk.
Pass pass_at(int64_t stages, int64_t chunks, int64_t k, bool forward) {
  if (chunks == 1) return {0, k, forward};
  const int64_t round = stages * chunks, chunk = k % round / stages;
  return {forward ? chunk : chunks - 1 - chunk, k / round * stages + k % stages, forward};
}

// One rank's pieces, as passes are added.
class Writer {
 public:
  Writer(const Pipeline& pipeline, int32_t stage, std::vector<int32_t> axes, std::vector<int32_t> sends)
      : pipeline_(pipeline), stage_(stage), axes_(std::move(axes)), sends_(std::move(sends)) {}

  void add(const StagePieces& list) {
    const auto base = static_cast<int32_t>(rank.pieces.size());
    const size_t had = computed_.size();
    for (const StagePiece& s : list) {
      Piece p = s.piece;
      p.after.clear();
      for (const int32_t a : s.piece.after) {
        if (a >= 0) p.after.push_back(base + std::min(a, static_cast<int32_t>(list.size())));
        const auto back = static_cast<size_t>(-int64_t{a});
        if (a < 0 && back <= had) p.after.push_back(computed_[had - back]);
      }
      if (s.after_all)
        for (const int32_t last : last_) p.after.insert(p.after.end(), last >= 0 ? 1 : 0, last);
      if (p.group >= 0) p.group = axes_[static_cast<size_t>(p.group)];
      push(std::move(p));
    }
  }

  // A pass: its input, if another stage has it, its pieces, and its result to who needs it.
  void add_pass(const Pass& t, bool is_last_batch) {
    const Stage& stage = pipeline_.stages[static_cast<size_t>(stage_)];
    const auto stages = static_cast<int32_t>(pipeline_.stages.size());
    const auto chunk = static_cast<size_t>(t.chunk);
    const bool first = stage_ == 0 && t.chunk == 0, last = stage_ == stages - 1 && t.chunk == pipeline_.chunks() - 1;
    const auto& backward = is_last_batch && !stage.backward_last.empty() ? stage.backward_last : stage.backward;
    const int32_t from = t.forward ? (stage_ + stages - 1) % stages : stage_;
    const bool receives = stages > 1 && !(t.forward ? first : last), sends = stages > 1 && !(t.forward ? last : first);
    if (receives) {
      transfer(t.forward ? Stream::receive_forward : Stream::receive_backward, from, 1, t.forward, {});
      waits_for_.push_back(static_cast<int32_t>(rank.pieces.size()) - 1);
    }
    add(t.forward ? stage.forward[chunk] : backward[chunk]);
    const int32_t to = t.forward ? stage_ : (stage_ + stages - 1) % stages;
    if (!sends || computed_.empty()) return;
    transfer(t.forward ? Stream::send_forward : Stream::send_backward, to, 0, t.forward, {computed_.back()});
    if (pipeline_.sends_block) waits_for_.push_back(static_cast<int32_t>(rank.pieces.size()) - 1);
  }

  Rank rank = {};

 private:
  // link: between a stage and the next, counted by the first of the two; both directions are groups of their own.
  void transfer(Stream lane, int32_t link, int32_t role, bool forward, std::vector<int32_t> after) {
    Piece p = pipeline_.send;
    p.lane = static_cast<int32_t>(lane);
    p.group = sends_[static_cast<size_t>(2 * link + (forward ? 0 : 1))];
    p.role = role;
    p.after = std::move(after);
    push(std::move(p));
  }

  void push(Piece p) {
    const auto i = static_cast<int32_t>(rank.pieces.size());
    if (p.lane == 0) {
      p.after.insert(p.after.end(), waits_for_.begin(), waits_for_.end());
      waits_for_.clear();
      computed_.push_back(i);
    }
    last_[static_cast<size_t>(p.lane)] = i;
    rank.pieces.push_back(std::move(p));
  }

  const Pipeline& pipeline_;
  const int32_t stage_;
  const std::vector<int32_t> axes_, sends_;
  std::vector<int32_t> computed_ = {};  // pieces of lane 0
  std::array<int32_t, kLanes> last_ = {-1, -1, -1, -1, -1, -1, -1};
  std::vector<int32_t> waits_for_ = {};  // what was received, or is sent, before the next piece of lane 0
};

Result<void> check(const Pipeline& p) {
  const auto stages = static_cast<int64_t>(p.stages.size());
  if (stages < 1 || p.batches < 1 || p.chunks() < 1)
    return fail(Code::invalid,
                cat(stages, " stages of ", p.chunks(), " chunks, ", p.batches, " batches; all are 1 or more"));
  if (p.chunks() > 1 && p.batches % stages != 0)
    return fail(Code::invalid,
                cat("interleaved, ", p.batches, " batches; a multiple of the ", stages, " stages is expected"));
  for (const Stage& s : p.stages) {
    const auto chunks = static_cast<size_t>(p.chunks());
    if (s.forward.size() != chunks || s.backward.size() != chunks ||
        (!s.backward_last.empty() && s.backward_last.size() != chunks))
      return fail(Code::invalid, cat("a stage of ", s.forward.size(), " chunks forward and ", s.backward.size(),
                                     " backward; ", chunks, " are expected"));
  }
  return {};
}

// a + times * (b - a), for all that the two have; whatever one lacks is none.
template <class Key>
std::map<Key, double> extended(const std::map<Key, double>& a, const std::map<Key, double>& b, double times) {
  std::map<Key, double> out;
  for (const auto& [key, value] : b) out[key] = value;
  for (const auto& [key, value] : a) out.emplace(key, 0);
  for (auto& [key, value] : out) {
    const auto at = a.find(key);
    const double had = at == a.end() ? 0 : at->second;
    value = had + times * (value - had);
  }
  return out;
}

StepTime extended(const StepTime& a, const StepTime& b, double times) {
  StepTime out = b;
  out.ns = a.ns + times * (b.ns - a.ns);
  for (size_t r = 0; r < out.ranks.size(); ++r) {
    out.ranks[r].parts = extended(a.ranks[r].parts, b.ranks[r].parts, times);
    out.ranks[r].collectives = extended(a.ranks[r].collectives, b.ranks[r].collectives, times);
  }
  return out;
}

Result<StepTime> time_batches(Pipeline pipeline, int64_t batches, bool with_spans) {
  pipeline.batches = batches;
  return time_step(TRY(expand(pipeline)), with_spans);
}

constexpr double kSameNs = 1;   // rounding of events, over a round of batches
constexpr int64_t kRounds = 6;  // that are taken to settle, at most

}  // namespace

std::vector<Pass> passes(int64_t stages, int64_t chunks, int64_t batches, int64_t stage) {
  const int64_t all = batches * chunks, later = stages - 1 - stage;
  const int64_t warm = std::min(all, chunks == 1 ? later : batches == stages ? all : 2 * later + (chunks - 1) * stages);
  std::vector<Pass> out;
  for (int64_t k = 0; k < all + warm; ++k) {
    if (k < all) out.push_back(pass_at(stages, chunks, k, true));
    if (k >= warm) out.push_back(pass_at(stages, chunks, k - warm, false));
  }
  return out;
}

int64_t in_flight_max(const std::vector<Pass>& passes) {
  int64_t now = 0, most = 0;
  for (const Pass& t : passes) most = std::max(most, now += t.forward ? 1 : -1);
  return most;
}

Result<Job> expand(const Pipeline& pipeline, const Grid& grid) {
  TRY(check(pipeline));
  const auto stages = static_cast<int64_t>(pipeline.stages.size());
  Job job{pipeline.names, {}, {}, pipeline.packet_bytes_compute, pipeline.packet_bytes_collective};
  const auto at = [&](int64_t stage, int64_t d, int64_t t) {
    return static_cast<int32_t>((stage * grid.data + d) * grid.tensor + t);
  };
  const auto group = [&](std::vector<int32_t> members) {
    job.groups.push_back(std::move(members));
    return static_cast<int32_t>(job.groups.size()) - 1;
  };
  std::map<std::pair<int64_t, int64_t>, int32_t> tensor, data;  // (stage, index) -> group
  for (int64_t s = 0; s < stages; ++s) {
    for (int64_t d = 0; d < grid.data; ++d) {
      std::vector<int32_t>& members = job.groups[static_cast<size_t>(tensor[{s, d}] = group({}))];
      for (int64_t t = 0; t < grid.tensor; ++t) members.push_back(at(s, d, t));
    }
    for (int64_t t = 0; t < grid.tensor; ++t) {
      std::vector<int32_t>& members = job.groups[static_cast<size_t>(data[{s, t}] = group({}))];
      for (int64_t d = 0; d < grid.data; ++d) members.push_back(at(s, d, t));
    }
  }
  std::map<std::pair<int64_t, int64_t>, std::vector<int32_t>> sends;  // (data, tensor) -> two groups a link
  for (int64_t d = 0; d < grid.data; ++d)
    for (int64_t t = 0; t < grid.tensor; ++t)
      for (int64_t s = 0; s < stages; ++s)
        for (int direction = 0; direction < 2; ++direction) {
          const int64_t next = (s + 1) % stages;
          sends[{d, t}].push_back(group({at(s, d, t), at(next, d, t)}));
        }
  for (int64_t s = 0; s < stages; ++s) {
    const auto order = passes(stages, pipeline.chunks(), pipeline.batches, s);
    for (int64_t d = 0; d < grid.data; ++d)
      for (int64_t t = 0; t < grid.tensor; ++t) {
        Writer writer(pipeline, static_cast<int32_t>(s), {tensor.at({s, d}), data.at({s, t})}, sends.at({d, t}));
        writer.add(pipeline.stages[static_cast<size_t>(s)].begin);
        for (const Pass& pass : order) writer.add_pass(pass, pass.batch == pipeline.batches - 1);
        writer.add(pipeline.stages[static_cast<size_t>(s)].end);
        job.ranks.push_back(std::move(writer.rank));
      }
  }
  return job;
}

Result<StepTime> time_pipeline(const Pipeline& pipeline, bool with_spans) {
  TRY(check(pipeline));
  const auto round = static_cast<int64_t>(pipeline.stages.size());
  const int64_t batches = pipeline.batches;
  int64_t had = 3 * round + batches % round;  // as far from a whole round as all of them
  if (batches <= had + round) return time_batches(pipeline, batches, with_spans);
  StepTime a = TRY(time_batches(pipeline, had - round, false)), b = TRY(time_batches(pipeline, had, false));
  for (int64_t tried = 0; tried < kRounds && had + round <= batches; ++tried) {
    StepTime c = TRY(time_batches(pipeline, had += round, with_spans));
    const bool settled = std::abs((c.ns - b.ns) - (b.ns - a.ns)) <= kSameNs;
    a = std::move(b);
    b = std::move(c);
    if (settled) break;
  }
  return extended(a, b, 1 + static_cast<double>(batches - had) / static_cast<double>(round));
}

}  // namespace trine::sim
