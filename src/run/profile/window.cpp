// Tracks and windows of a profile; see window.h. From blocks of runs down to runs, to nodes of a program's tree, to its
// events: whatever is narrower than a column is joined with its neighbours and not opened.
#include "run/profile/window.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/text.h"
#include "sim/core/timing.h"

namespace trine::run {

namespace {

constexpr size_t kBlock = 256;  // runs

int64_t whole_ns(int64_t ps) { return (ps + 500) / 1000; }
int64_t sane(int64_t ps) { return std::clamp<int64_t>(ps, 0, kProfileTimeMax); }  // of a damaged file: no overflow

constexpr size_t kSemaphoresMax = 4096;  // of one program

// The values of one semaphore, from `at` on. Rows of a damaged file may be in any order: it ends all the same.
std::span<const ProfileSemaphore> semaphore_at(std::span<const ProfileSemaphore> rows, size_t at) {
  const auto key = std::tie(rows[at].core, rows[at].semaphore);
  const auto end = std::partition_point(rows.begin() + ptrdiff_t(at) + 1, rows.end(), [&](const ProfileSemaphore& r) {
    return std::tie(r.core, r.semaphore) <= key;
  });
  return rows.subspan(at, size_t(end - rows.begin()) - at);
}

std::string track_name(const TimelineTrack& t) {
  if (t.kind == TrackKind::semaphore) return cat("s", t.queue);
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
      for (const uint32_t p : of->second) {
        const ProgramProfile& program = file_->programs()[p];
        for (const ProfileTrack& t : program.tracks)
          if (t.part <= uint16_t(sim::Part::dma)) keys.insert({t.core, t.part, t.queue, t.lane});
        for (size_t at = 0, n = 0; at < program.semaphores.size() && n < kSemaphoresMax; ++n) {
          const auto rows = semaphore_at(program.semaphores, at);
          keys.insert({rows[0].core, uint16_t(sim::Part::semaphore), rows[0].semaphore, 0});
          at += rows.size();
        }
      }
      for (const auto& [core, part, queue, lane] : keys) {
        const TrackKind kind = part == uint16_t(sim::Part::semaphore) ? TrackKind::semaphore
                               : part == uint16_t(sim::Part::dma)     ? TrackKind::dma
                                                                      : TrackKind::engine;
        tracks_.push_back({rank, of->first.second, core, part, queue, lane, kind, 0, ""});
        tracks_.back().name = track_name(tracks_.back());
      }
    }
  }
}

ProfileView::Own ProfileView::find(uint32_t program, const TimelineTrack& t) const {
  if (program == kNone) return {};
  const ProgramProfile& of = file_->programs()[program];
  if (t.kind == TrackKind::semaphore) {
    const auto first = std::partition_point(of.semaphores.begin(), of.semaphores.end(), [&](const ProfileSemaphore& s) {
      return std::tie(s.core, s.semaphore) < std::tie(t.core, t.queue);
    });
    if (first == of.semaphores.end() || first->core != t.core || first->semaphore != t.queue) return {};
    return {nullptr, semaphore_at(of.semaphores, size_t(first - of.semaphores.begin()))};
  }
  for (const ProfileTrack& p : of.tracks)
    if (p.core == t.core && p.part == t.part && p.queue == t.queue && p.lane == t.lane) return {&p, {}};
  return {};
}

int64_t ProfileView::Own::busy(const ProfileRun& r) const {
  return track ? sane(track->busy) : values.empty() ? 0 : r.end - r.begin;
}

const std::vector<ProfileView::Sum>& ProfileView::blocks(size_t track, const Lane& lane) const {
  const std::lock_guard held(lock_);
  auto [found, is_new] = blocks_.try_emplace(track);
  if (!is_new) return found->second;
  const TimelineTrack& t = tracks_[track];
  std::map<uint32_t, Own> of;  // by program
  found->second.resize((lane.count + kBlock - 1) / kBlock);
  for (size_t i = 0; i < lane.count; ++i) {
    const ProfileRun& r = file_->runs()[lane.first + i];
    const auto [p, fresh] = of.try_emplace(r.program);
    if (fresh) p->second = find(r.program, t);
    const Own& own = p->second;
    if (!own.count() || t.device < r.device || t.device - r.device >= r.devices) continue;
    Sum& sum = found->second[i / kBlock];
    sum.count += own.count(), sum.busy = sane(sum.busy + own.busy(r));
    if (own.busy(r) > sum.most) sum.most = own.busy(r), sum.name = own.name();
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

  // A run of a program on a semaphore's track: the stretches between changes, those of one column at once.
  void hold(std::span<const ProfileSemaphore> values, const ProfileRun& r, uint32_t run) {
    const auto from = [&](int64_t at) {  // the first that changes at or after
      return size_t(std::partition_point(values.begin(), values.end(),
                                         [&](const ProfileSemaphore& s) { return r.begin + sane(s.at) < at; }) -
                    values.begin());
    };
    size_t i = from(begin_);
    if (i > 0) --i;  // what holds when the window begins
    while (i < values.size()) {
      const int64_t begin = r.begin + sane(values[i].at);
      if (begin >= end_) break;
      const size_t next = from(begin + column_);
      const size_t after = std::max(i + 1, next > 0 ? next - 1 : 0);  // the one before `next` holds longer, perhaps
      const int64_t end = std::max(begin, after < values.size() ? r.begin + sane(values[after].at) : r.end);
      const ProfileSemaphore& shown = values[after - 1];
      add(begin, end, end - begin, int64_t(after - i), uint32_t(std::max(0, shown.value)),
          after == i + 1 ? EventNumber{run, shown.event}.id() : -1);
      i = after;
    }
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
  std::map<uint32_t, Own> found;  // by program
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
    const Own& own = p->second;
    if (!own.count()) continue;
    if (walk.is_narrow(r.begin, r.end))
      walk.add(r.begin, r.end, own.busy(r), own.count(), own.name(), -1);
    else if (own.track)
      walk.descend(file_->programs()[r.program], *own.track, r, number);
    else
      walk.hold(own.values, r, number);
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
    const ProfileTrack* p = find(r.program, t).track;
    if (p && e.event >= p->event && e.event - p->event < p->count) return i;
  }
  return std::nullopt;
}

}  // namespace trine::run
