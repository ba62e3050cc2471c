// Cover: strided reads of memory as long runs. A tile holds all that lies between the elements too, and engines step
// over it; reads that walk alike and begin near one another, as the taps of a window do, share one.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "compile/device/memory/store.h"

namespace trine::compile::device {

struct Cover {
  Axes memory = {};   // what is loaded: dims too far apart, then one run
  Axes tile = {};     // how the read walks what was loaded
  int64_t back = 0;   // elements of memory before the read's first that are loaded: of dims that go backwards
  int64_t first = 0;  // of the tile, the read's first
  int64_t columns() const { return count_of(memory); }
};

// Of a read by `free` from any of the starts up to `span` elements on.
Cover cover_of(const Axes& free, int64_t span, int bytes);

// Is it better than a transfer of the elements alone?
bool pays(const Cover& cover, const Axes& free);

// Reads of each memory by the strides of their walks: where they start.
class Reads {
 public:
  void add(const Memory& memory, const std::vector<int64_t>& strides, int64_t start);
  // First and last start of those that one cover serves, `start` among them.
  std::pair<int64_t, int64_t> together(const Memory& memory, const std::vector<int64_t>& strides, int64_t start,
                                       const Axes& free) const;
  // f(memory, strides, start) of each read.
  template <class F>
  void each(F f) const {
    for (const auto& [key, starts] : starts_)
      for (int64_t start : starts) f(*key.first, key.second, start);
  }

 private:
  std::map<std::pair<const Memory*, std::vector<int64_t>>, std::vector<int64_t>> starts_;  // in order, each once
};

}  // namespace trine::compile::device
