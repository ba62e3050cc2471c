#include <torch/csrc/profiler/combined_traceback.h>
#include <torch/csrc/utils/pybind.h>

#include "api/torch/aten.h"

#include "api/torch/history.h"

#include <atomic>
#include <bit>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>

namespace py = pybind11;

namespace trine::api::neuron {

namespace {

using Frames = std::shared_ptr<torch::CapturedTraceback>;

struct Piece {
  int device;
  size_t bytes;
  Frames frames;
};

struct Event {
  bool is_allocation;
  int64_t address, time_us;
  Piece piece;
};

std::atomic<bool> is_recording = false;

struct History {
  std::mutex mutex;
  bool with_frames = true;
  size_t entries_max = 0;
  std::map<int64_t, Piece> live;
  std::deque<Event> events;
};
History& state() {
  static auto* made = new History;  // tensors may outlive every static
  return *made;
}

int64_t now_us() { return std::chrono::system_clock::now().time_since_epoch() / std::chrono::microseconds(1); }

// Adds an event; the oldest goes where there are too many. What goes is returned: it is dropped without the lock.
std::deque<Event> add(History& h, Event event) {
  std::deque<Event> gone;
  h.events.push_back(std::move(event));
  while (h.events.size() > h.entries_max) {
    gone.push_back(std::move(h.events.front()));
    h.events.pop_front();
  }
  return gone;
}

py::list frames_of(const Frames& frames) {
  py::list out;
  if (!frames) return out;
  const auto found = torch::symbolize({frames.get()});
  for (uint64_t i : found.tracebacks.at(0)) {
    py::dict frame;
    frame["filename"] = found.all_frames[i].filename;
    frame["line"] = found.all_frames[i].lineno;
    frame["name"] = found.all_frames[i].funcname;
    out.append(frame);
  }
  return out;
}

py::dict segment_of(int64_t address, const Piece& piece) {
  py::dict block, out;
  block["address"] = address;
  for (const char* size : {"size", "requested_size"}) block[size] = piece.bytes;
  block["state"] = "active_allocated";
  block["frames"] = frames_of(piece.frames);
  py::list blocks;
  blocks.append(block);
  out["device"] = piece.device;
  out["address"] = address;
  for (const char* size : {"total_size", "allocated_size", "active_size", "requested_size"}) out[size] = piece.bytes;
  out["stream"] = 0;
  out["segment_type"] = "large";
  out["is_expandable"] = false;
  out["segment_pool_id"] = py::make_tuple(0, 0);
  out["frames"] = py::list();
  out["blocks"] = blocks;
  return out;
}

py::dict event_of(const Event& event, const char* action) {
  py::dict out;
  out["action"] = action;
  out["addr"] = event.address;
  out["size"] = event.piece.bytes;
  out["stream"] = 0;
  out["time_us"] = event.time_us;
  out["frames"] = frames_of(event.piece.frames);
  return out;
}

}  // namespace

void record_history(bool is_on, bool with_frames, size_t entries_max) {
  std::map<int64_t, Piece> live;
  std::deque<Event> events;
  const std::lock_guard lock(state().mutex);
  if (is_on) {
    std::swap(live, state().live);
    std::swap(events, state().events);
    state().with_frames = with_frames;
    state().entries_max = entries_max;
  }
  is_recording = is_on;
}

void note_allocated(int device, const void* address, size_t bytes) {
  if (!is_recording.load(std::memory_order_relaxed)) return;
  History& h = state();
  Piece piece{device, bytes, h.with_frames ? torch::CapturedTraceback::gather(true, false, false) : nullptr};
  std::deque<Event> gone;
  const std::lock_guard lock(h.mutex);
  const auto at = int64_t(std::bit_cast<uintptr_t>(address));
  h.live[at] = piece;
  gone = add(h, {true, at, now_us(), std::move(piece)});
}

void note_released(const void* address) {
  if (!is_recording.load(std::memory_order_relaxed)) return;
  History& h = state();
  std::deque<Event> gone;
  const std::lock_guard lock(h.mutex);
  const auto at = int64_t(std::bit_cast<uintptr_t>(address));
  const auto found = h.live.find(at);
  if (found == h.live.end()) return;
  gone = add(h, {false, at, now_us(), std::move(found->second)});
  h.live.erase(found);
}

py::dict history(int device_count) {
  std::map<int64_t, Piece> live;
  std::deque<Event> events;
  {
    const std::lock_guard lock(state().mutex);
    live = state().live;
    events = state().events;
  }
  py::list segments, traces;
  for (const auto& [address, piece] : live) segments.append(segment_of(address, piece));
  for (int i = 0; i < device_count; ++i) traces.append(py::list());
  for (const Event& event : events) {
    auto trace = traces[size_t(event.piece.device)].cast<py::list>();
    trace.append(event_of(event, event.is_allocation ? "alloc" : "free_requested"));
    if (!event.is_allocation) trace.append(event_of(event, "free_completed"));
  }
  py::dict out;
  out["segments"] = segments;
  out["device_traces"] = traces;
  out["allocator_settings"] = py::dict();
  return out;
}

}  // namespace trine::api::neuron
