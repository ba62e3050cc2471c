// A request while it is served: its choices, what each has seen, and what it cost so far. The engine's own.
#pragma once

#include <memory>
#include <vector>

#include "serve/engine.h"

namespace trine::serve {

struct Engine::Choice {
  Active* active = nullptr;
  Sequence sequence;
  Seen seen;
  std::vector<int32_t> drafts, step_tokens;  // guessed tokens; the last known one and these
  std::vector<uint8_t> mask;
  bool mask_came = false;
  std::vector<float> held_logits;  // sampled once the mask is there
  std::vector<Sampled> prompt_logprobs;
  std::vector<Event> withheld;  // told at the end, where only the best choices are
  double logprob = 0;           // of the output
  double host_arrived = 0, host_first_run = -1, host_first = -1, chip_arrived = 0, chip_first_run = -1, chip_first = -1;
  double joules = 0, usd = 0;
  Usage usage;
  Reason ended = Reason::none;
  Event last;  // "finished", where it is withheld
};

struct Engine::Active {
  Request request;
  int64_t id = 0;
  double arrived = 0, host_arrived = 0;
  std::shared_ptr<const run::Adapter> adapter;
  std::vector<std::unique_ptr<Choice>> choices;
  int32_t left = 0;  // choices that have not ended
  bool forked = false;

  bool keeps() const { return request.best_of > request.n; }
};

}  // namespace trine::serve
