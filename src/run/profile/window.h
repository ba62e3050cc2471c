// ProfileView: a profile as a timeline: tracks of every rank and device, and what is on them in a window, at most about
// as many rows as are asked for. A program's events are shifted to where each of its runs began.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "run/profile/file.h"

namespace trine::run {

enum class TrackKind : uint8_t { engine, dma, collective, host, semaphore };

struct TimelineTrack {
  uint32_t rank = 0, device = 0;
  uint16_t core = 0, part = 0, queue = 0, lane = 0;  // queue: of a semaphore its number
  TrackKind kind = TrackKind::engine;
  uint32_t run_lane = 0;  // of ProfileRun
  std::string name = {};
};

// event: -1 where several are one row. busy: the share of its time that is worked in. On a semaphore's track a row is
// the stretch over which it holds a value: `name` is that value, `event` the instruction that made it so.
struct WindowRow {
  int64_t begin_ns, end_ns, event, count;
  int32_t name;
  float busy;
};

// An event by its number: the run, and the event in its program (kNone: the run itself).
struct EventNumber {
  uint32_t run = 0, event = kNone;
  int64_t id() const { return (int64_t{run} << 32) | event; }
  static EventNumber of(int64_t id) { return {uint32_t(uint64_t(id) >> 32), uint32_t(id)}; }
};

class ProfileView {
 public:
  explicit ProfileView(std::shared_ptr<const ProfileFile> file);

  const ProfileFile& file() const { return *file_; }
  const std::vector<TimelineTrack>& tracks() const { return tracks_; }
  std::vector<WindowRow> window(size_t track, int64_t begin_ns, int64_t end_ns, int64_t columns) const;
  bool has(EventNumber e) const;
  std::optional<uint32_t> track_of(EventNumber e, uint32_t device) const;
  int64_t end_ps() const { return end_; }

 private:
  struct Sum {
    int64_t count = 0, busy = 0;
    uint32_t name = 0;
    int64_t most = -1;
  };
  struct Lane {
    size_t first = 0, count = 0;  // runs
  };
  class Walk;
  // What one program has on a track of the timeline: events, or the values of a semaphore.
  struct Own {
    const ProfileTrack* track = nullptr;
    std::span<const ProfileSemaphore> values = {};
    int64_t count() const { return track ? int64_t(track->count) : int64_t(values.size()); }
    uint32_t name() const { return track ? track->name : values.empty() ? 0 : uint32_t(values.back().value); }
    int64_t busy(const ProfileRun& r) const;  // of one run
  };

  Own find(uint32_t program, const TimelineTrack& t) const;
  const std::vector<Sum>& blocks(size_t track, const Lane& lane) const;

  std::shared_ptr<const ProfileFile> file_;
  std::vector<TimelineTrack> tracks_;
  std::map<std::pair<uint32_t, uint32_t>, Lane> lanes_;  // by rank and lane
  int64_t end_ = 0;
  mutable std::mutex lock_;
  mutable std::map<size_t, std::vector<Sum>> blocks_;  // by track, of each 256 runs
};

}  // namespace trine::run
