// One sequence of tokens that grows: what was asked, how far it is, and which pages it has.
// A request has as many as it wants choices. Invariant: pages hold at least the computed tokens.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace trine::serve {

enum class State : uint8_t { waiting, running, finished };
enum class Reason : uint8_t { none, stop, length, cancelled, deadline, error };

inline const char* name(Reason r) {
  constexpr const char* names[] = {"", "stop", "length", "cancelled", "deadline", "error"};
  return names[size_t(r)];
}

struct Sequence {
  int64_t id = 0;  // of the request
  int32_t choice = 0;
  int32_t prompt = 0;      // tokens
  int32_t most = 1;        // new tokens
  int32_t length = 0;      // tokens known
  int32_t computed = 0;    // of these, whose keys and values are in pages
  int32_t cached = 0;      // of the prompt, found in the prefix cache
  int32_t reads = 0;       // tokens to compute when it was let in
  bool in_shares = false;  // some of them were in the host's small chunks: each takes its share of the chip's program
  int32_t part = -1;       // a page that begins with the next tokens, held until it is copied
  int32_t imported = 0;    // tokens whose keys and values come from elsewhere
  int32_t drafts = 0;      // tokens after the last that are guessed, to be checked by the next step
  int32_t priority = 0;    // larger goes first
  int32_t key = 0;         // whose share it counts against
  double deadline = std::numeric_limits<double>::infinity();  // on the clock
  uint64_t order = 0;                                         // of arrival
  State state = State::waiting;
  bool held = false;            // may not run: its mask is awaited
  bool whole = false;           // nothing of the prompt may come from the cache: its logits are wanted
  uint64_t root = 0;            // hash before the first page
  std::vector<int32_t> tokens;  // empty where only lengths are known
  std::vector<int32_t> pages;
  std::vector<uint64_t> hashes;                                      // of full pages, as far as known
  double arrived = 0, first_run = -1, first_token = -1, ended = -1;  // on the clock
  int32_t preempted = 0;
};

}  // namespace trine::serve
