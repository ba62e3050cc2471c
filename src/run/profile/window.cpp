// Tracks and windows of a profile; see window.h. From blocks of runs down to runs, to nodes of a program's tree, to its
// events: whatever is narrower than a column is joined with its neighbours and not opened.
#include "run/profile/window.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "sim/core/timing.h"

namespace trine::run {

namespace {

constexpr size_t kBlock = 256;  // runs

int64_t whole_ns(int64_t ps) { return (ps + 500) / 1000; }
int64_t sane(int64_t ps) { return std::clamp<int64_t>(ps, 0, kProfileTimeMax); }  // of a damaged file: no overflow

std::string track_name(const TimelineTrack& t) {
  if (t.kind == TrackKind::engine) return std::string(sim::name(sim::Part(t.part)));
  return t.lane ? cat("queue ", t.queue, " (", t.lane + 1, ")") : cat("queue ", t.queue);
}

}  // namespace

ProfileView::ProfileView(std::shared_ptr<const ProfileFile> file) : file_(std::move(file)) {
  std::map<std::pair<uint32_t, uint32_t>, std::set<uint32_t>> programs;  // by rank and device
  const auto runs = file_->runs();
  for (size_t i = 0; i < runs.size(); ++i) {
    const ProfileRun& r = runs[i];
    Lane& lane = lanes_[{r.rank, r.lane}];
    if (!lane.count++) lane.first = i;
    end_ = std::max(end_, r.end);
    if (r.lane == 0)
      for (uint32_t d = 0; d < r.devices; ++d) {
        auto& of = programs[{r.rank, r.device + d}];
        if (r.program != kNone) of.insert(r.program);
      }
  }
  std::set<uint32_t> ranks;
  for (const auto& [key, lane] : lanes_) ranks.insert(key.first);
  for (const uint32_t rank : ranks) {
    static constexpr std::string_view kLanes[] = {"programs", "collectives", "host"};
    for (uint32_t lane = 0; lane < 3; ++lane)
      if (lanes_.contains({rank, lane}))
        tracks_.push_back({.rank = rank,
                           .kind = lane == 1 ? TrackKind::collective : TrackKind::host,
                           .run_lane = lane,
                           .name = std::string(kLanes[lane])});
    for (auto of = programs.lower_bound({rank, 0}); of != programs.end() && of->first.first == rank; ++of) {
      std::set<std::array<uint16_t, 4>> keys;
      for (const uint32_t p : of->second)
        for (const ProfileTrack& t : file_->programs()[p].tracks) keys.insert({t.core, t.part, t.queue, t.lane});
      for (const auto& [core, part, queue, lane] : keys) {
        const bool is_dma = part == uint16_t(sim::Part::dma);
        if (part > uint16_t(sim::Part::dma)) continue;
        tracks_.push_back(
            {rank, of->first.second, core, part, queue, lane, is_dma ? TrackKind::dma : TrackKind::engine, 0, ""});
        tracks_.back().name = track_name(tracks_.back());
      }
    }
  }
}

const ProfileTrack* ProfileView::find(uint32_t program, const TimelineTrack& t) const {
  if (program == kNone) return nullptr;
  for (const ProfileTrack& p : file_->programs()[program].tracks)
    if (p.core == t.core && p.part == t.part && p.queue == t.queue && p.lane == t.lane) return &p;
  return nullptr;
}

const std::vector<ProfileView::Sum>& ProfileView::blocks(size_t track, const Lane& lane) const {
  const std::lock_guard held(lock_);
  auto [found, is_new] = blocks_.try_emplace(track);
  if (!is_new) return found->second;
  const TimelineTrack& t = tracks_[track];
  std::map<uint32_t, const ProfileTrack*> of;  // by program
  found->second.resize((lane.count + kBlock - 1) / kBlock);
  for (size_t i = 0; i < lane.count; ++i) {
    const ProfileRun& r = file_->runs()[lane.first + i];
    const auto [p, fresh] = of.try_emplace(r.program);
    if (fresh) p->second = find(r.program, t);
    if (!p->second || t.device < r.device || t.device - r.device >= r.devices) continue;
    Sum& sum = found->second[i / kBlock];
    sum.count += int64_t(p->second->count), sum.busy = sane(sum.busy + sane(p->second->busy));
    if (p->second->busy > sum.most) sum.most = p->second->busy, sum.name = p->second->name;
  }
  return found->second;
}

// One window over one track.
class ProfileView::Walk {
 public:
  Walk(const ProfileFile& file, int64_t begin, int64_t end, int64_t column)
      : file_(file), begin_(begin), end_(end), column_(std::max<int64_t>(1, column)) {}

  bool misses(int64_t begin, int64_t end) const {
    return end <= begin_ ? end < begin_ || begin < begin_ : begin >= end_;
  }
  bool is_narrow(int64_t begin, int64_t end) const { return end - begin <= column_; }

  void add(int64_t begin, int64_t end, int64_t busy, int64_t count, uint32_t name, int64_t event) {
    if (count == 0) return;
    if (!rows_.empty()) {
      Row& last = rows_.back();
      if (is_narrow(last.begin, end) && is_narrow(last.begin, last.end)) {
        if (busy > last.most) last.most = busy, last.name = name;
        last.end = std::max(last.end, end), last.busy = sane(last.busy + busy), last.count += count, last.event = -1;
        return;
      }
    }
    rows_.push_back({begin, end, busy, busy, count, event, name});
  }

  // A run of a program: its own tree, from the top.
  void descend(const ProgramProfile& p, const ProfileTrack& t, const ProfileRun& r, uint32_t run) {
    if (t.levels == 0) return events(p, t, r, run, 0, t.count);
    std::vector<std::pair<uint64_t, uint64_t>> levels;  // first node and count, finest first
    uint64_t first = t.node;
    for (uint64_t n = t.count, l = 0; l < t.levels; ++l, first += n)
      levels.emplace_back(first, n = (n + kFan - 1) / kFan);
    for (uint64_t i = 0; i < levels.back().second; ++i) node(p, t, r, run, levels, levels.size() - 1, i);
  }

  std::vector<WindowRow> rows() const {
    std::vector<WindowRow> out;
    out.reserve(rows_.size());
    for (const Row& r : rows_) {
      const int64_t wide = r.end - r.begin;
      out.push_back({whole_ns(r.begin), whole_ns(r.end), r.event, r.count, int32_t(r.name),
                     wide > 0 ? std::min(1.0f, float(double(r.busy) / double(wide))) : 1.0f});
    }
    return out;
  }

 private:
  struct Row {
    int64_t begin, end, busy, most, count, event;
    uint32_t name;
  };

  void node(const ProgramProfile& p, const ProfileTrack& t, const ProfileRun& r, uint32_t run,
            const std::vector<std::pair<uint64_t, uint64_t>>& levels, size_t level, uint64_t i) {
    ProfileNode n = p.nodes[levels[level].first + i];
    n.begin = sane(n.begin), n.end = sane(n.end), n.busy = sane(n.busy);
    if (misses(r.begin + n.begin, r.begin + n.end)) return;
    if (is_narrow(n.begin, n.end)) return add(r.begin + n.begin, r.begin + n.end, n.busy, n.count, n.name, -1);
    if (level == 0) return events(p, t, r, run, i * kFan, std::min((i + 1) * kFan, t.count));
    for (uint64_t k = i * kFan; k < std::min((i + 1) * kFan, levels[level - 1].second); ++k)
      node(p, t, r, run, levels, level - 1, k);
  }

  void events(const ProgramProfile& p, const ProfileTrack& t, const ProfileRun& r, uint32_t run, uint64_t from,
              uint64_t to) {
    for (uint64_t i = t.event + from; i < t.event + to; ++i) {
      ProfileEvent e = p.events[i];
      e.begin = sane(e.begin), e.end = sane(e.end);
      if (misses(r.begin + e.begin, r.begin + e.end)) continue;
      add(r.begin + e.begin, r.begin + e.end, e.end - e.begin, 1, e.insn < p.insns.size() ? p.insns[e.insn].name : 0,
          EventNumber{run, uint32_t(i)}.id());
    }
  }

  const ProfileFile& file_;
  int64_t begin_, end_, column_;
  std::vector<Row> rows_;
};

std::vector<WindowRow> ProfileView::window(size_t track, int64_t begin_ns, int64_t end_ns, int64_t columns) const {
  constexpr int64_t kFar = INT64_MAX / 4000;
  const int64_t begin = std::clamp(begin_ns, -kFar, kFar) * 1000, end = std::clamp(end_ns, -kFar, kFar) * 1000;
  if (track >= tracks_.size() || end <= begin) return {};
  const TimelineTrack& t = tracks_[track];
  const auto of = lanes_.find({t.rank, t.run_lane});
  if (of == lanes_.end()) return {};
  const Lane& lane = of->second;
  const auto runs = file_->runs().subspan(lane.first, lane.count);
  Walk walk(*file_, begin, end, (end - begin) / std::max<int64_t>(1, columns));
  const bool is_own = t.kind == TrackKind::host || t.kind == TrackKind::collective;  // the runs are what it shows
  const std::vector<Sum>* sums = is_own || lane.count <= kBlock ? nullptr : &blocks(track, lane);
  std::map<uint32_t, const ProfileTrack*> found;  // by program
  // Runs of a lane do not overlap, so that the first that ends in the window is found by halving.
  size_t i = size_t(std::partition_point(runs.begin(), runs.end(), [&](const ProfileRun& r) { return r.end < begin; }) -
                    runs.begin());
  for (; i < runs.size() && runs[i].begin < end; ++i) {
    const ProfileRun& r = runs[i];
    if (sums && i % kBlock == 0) {
      const size_t last = std::min(i + kBlock, runs.size()) - 1;
      if (walk.is_narrow(r.begin, runs[last].end) && !walk.misses(r.begin, runs[last].end)) {
        const Sum& s = (*sums)[i / kBlock];
        walk.add(r.begin, runs[last].end, s.busy, s.count, s.name, -1);
        i = last;
        continue;
      }
    }
    if (walk.misses(r.begin, r.end)) continue;
    const uint32_t number = uint32_t(lane.first + i);
    if (is_own) {
      walk.add(r.begin, r.end, r.end - r.begin, 1, r.name, EventNumber{number, kNone}.id());
      continue;
    }
    if (t.device < r.device || t.device - r.device >= r.devices) continue;
    const auto [p, fresh] = found.try_emplace(r.program);
    if (fresh) p->second = find(r.program, t);
    if (!p->second || !p->second->count) continue;
    if (walk.is_narrow(r.begin, r.end))
      walk.add(r.begin, r.end, sane(p->second->busy), int64_t(p->second->count), p->second->name, -1);
    else
      walk.descend(file_->programs()[r.program], *p->second, r, number);
  }
  return walk.rows();
}

bool ProfileView::has(EventNumber e) const {
  if (e.run >= file_->runs().size()) return false;
  const ProfileRun& r = file_->runs()[e.run];
  return e.event == kNone || (r.program != kNone && e.event < file_->programs()[r.program].events.size());
}

std::optional<uint32_t> ProfileView::track_of(EventNumber e, uint32_t device) const {
  if (!has(e)) return std::nullopt;
  const ProfileRun& r = file_->runs()[e.run];
  for (uint32_t i = 0; i < tracks_.size(); ++i) {
    const TimelineTrack& t = tracks_[i];
    if (t.rank != r.rank || t.run_lane != r.lane) continue;
    if (e.event == kNone) return i;
    if (t.device != device || t.kind == TrackKind::host) continue;
    const ProfileTrack* p = find(r.program, t);
    if (p && e.event >= p->event && e.event - p->event < p->count) return i;
  }
  return std::nullopt;
}

}  // namespace trine::run
