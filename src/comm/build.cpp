// Chips of a party, moves from chunks, and steps joined; see build.h.
#include "comm/build.h"

#include <algorithm>

namespace trine::comm {

std::vector<OnChip> by_chip(const Party& party) {
  std::vector<OnChip> out;
  std::vector<Place> seen;
  for (int32_t m = 0; m < party.size(); ++m) {
    const Place place{party.places[static_cast<size_t>(m)].node, party.places[static_cast<size_t>(m)].chip, 0};
    const auto found = std::find(seen.rbegin(), seen.rend(), place);  // the last one, as a rule
    if (found == seen.rend()) {
      seen.push_back(place);
      out.push_back({place.chip, {m}});
    } else {
      out[static_cast<size_t>(seen.rend() - found) - 1].members.push_back(m);
    }
  }
  return out;
}

void StepWriter::send(int32_t from, int32_t to, int32_t chunk, int32_t sub, bool reduce) {
  const int32_t first = party_.base + chunk * party_.chunk_stride + sub * party_.sub_stride;
  const Move move{party_.ranks[static_cast<size_t>(from)], party_.ranks[static_cast<size_t>(to)], first, party_.count,
                  reduce};
  if (!step_.moves.empty()) {
    Move& last = step_.moves.back();
    if (last.from == move.from && last.to == move.to && last.reduce == reduce && last.first + last.count == first) {
      last.count += move.count;
      return;
    }
  }
  step_.moves.push_back(move);
}

void StepWriter::send(int32_t from, int32_t to, int32_t chunk, bool reduce) {
  for (int32_t s = 0; s < party_.subs; ++s) send(from, to, chunk, s, reduce);
}

void StepWriter::send_all(int32_t from, int32_t to, bool reduce) {
  for (int32_t c = 0; c < (party_.chunks ? party_.chunks : party_.size()); ++c) send(from, to, c, reduce);
}

void append(Steps& to, Steps more) {
  for (Step& step : more) to.push_back(std::move(step));
}

void beside(Steps& to, const Steps& others) {
  if (to.size() < others.size()) to.resize(others.size());
  for (size_t i = 0; i < others.size(); ++i) {
    to[i].moves.insert(to[i].moves.end(), others[i].moves.begin(), others[i].moves.end());
    to[i].fused |= others[i].fused;
    to[i].in_place |= others[i].in_place;
    to[i].duplicates |= others[i].duplicates;
  }
}

}  // namespace trine::comm
