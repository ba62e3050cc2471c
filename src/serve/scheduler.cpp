// The scheduler: what runs, what waits, who gives way.
#include "serve/scheduler.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace trine::serve {

namespace {

int32_t pages_for(int64_t tokens) { return int32_t((tokens + kPageTokens - 1) / kPageTokens); }

bool decodes(const Sequence& s) {
  return s.length - s.computed == 1 && s.computed >= s.prompt - 1 && s.length > s.prompt;
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options) : options_(options), pool_(options.pages), cache_(pool_) {}

Result<void> Scheduler::fits(int32_t prompt, int32_t most) const {
  if (prompt <= 0) return fail(Code::invalid, "a request without tokens");
  if (most < 0) return fail(Code::invalid, cat(most, " new tokens are asked for"));
  if (int64_t(prompt) + most > options_.context)
    return fail(Code::out_of_range, cat("a prompt of ", prompt, " tokens and up to ", most,
                                        " new ones; the context is ", options_.context));
  if (pages_for(int64_t(prompt) + most) > pool_.total())
    return fail(Code::out_of_range, cat("a request of up to ", prompt + most, " tokens needs ",
                                        pages_for(int64_t(prompt) + most), " pages; there are ", pool_.total()));
  return {};
}

void Scheduler::add(Sequence* s) {
  s->order = ++order_;
  s->state = State::waiting;
  Queue& queue = queues_[s->priority];
  auto& line = queue.by_key[s->key];
  if (line.empty()) {  // who comes back does not catch up on what it did not ask for
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [key, others] : queue.by_key)
      if (!others.empty()) least = std::min(least, served_[key]);
    if (std::isfinite(least)) served_[s->key] = std::max(served_[s->key], least);
  }
  line.push_back(s);
  ++waiting_;
  if (std::isfinite(s->deadline)) deadlines_.emplace(s->deadline, s);
}

void Scheduler::leave_queue(Sequence* s) {
  auto& line = queues_[s->priority].by_key[s->key];
  if (!line.empty() && line.front() == s) {
    line.pop_front();
    --waiting_;
  } else if (const auto at = std::find(line.begin(), line.end(), s); at != line.end()) {
    line.erase(at);
    --waiting_;
  }
}

void Scheduler::release(Sequence* s) {
  for (size_t i = s->pages.size(); i-- > 0;) cache_.release(s->pages[i]);
  s->pages.clear();
  if (s->part >= 0) cache_.release(s->part), s->part = -1;
}

// What it computed of its last page, for who begins as it ended.
void Scheduler::keep_tail(Sequence* s) {
  const int32_t count = s->computed % kPageTokens, full = s->computed / kPageTokens;
  if (!options_.prefix_cache || !options_.part_pages || s->tokens.empty() || !count || int32_t(s->hashes.size()) < full)
    return;
  const auto own = std::span(s->tokens).subspan(size_t(full) * kPageTokens, size_t(count));
  const uint64_t before = full ? s->hashes[size_t(full) - 1] : s->root;
  cache_.put(before, page_hash(before, own), s->pages[size_t(full)], own);
}

int32_t Scheduler::worst_pages(const Sequence& s) const { return pages_for(int64_t(s.prompt) + s.most); }

void Scheduler::finish(Sequence* s, Reason) {
  if (s->state == State::finished) return;
  if (s->state == State::waiting) leave_queue(s);
  if (s->state == State::running) {
    running_.erase(std::find(running_.begin(), running_.end(), s));
    worst_ -= worst_pages(*s);
    keep_tail(s);
  }
  release(s);
  s->state = State::finished;
  if (std::isfinite(s->deadline)) {
    for (auto [at, end] = deadlines_.equal_range(s->deadline); at != end; ++at)
      if (at->second == s) {
        deadlines_.erase(at);
        break;
      }
  }
}

int32_t Scheduler::take_page() {
  int32_t page = pool_.take();
  while (page < 0 && cache_.evict()) page = pool_.take();
  return page;
}

bool Scheduler::grow(Sequence* s, int32_t tokens) {
  const size_t needed = size_t(pages_for(tokens));
  while (s->pages.size() < needed) {
    const int32_t page = take_page();
    if (page < 0) return false;
    s->pages.push_back(page);
  }
  return true;
}

// The one that gives way: of the lowest priority, of those the last that came. Never one that stands before `for_whom`.
Sequence* Scheduler::victim(const Sequence* for_whom) const {
  Sequence* found = nullptr;
  for (Sequence* s : running_)
    if (!found || s->priority < found->priority || (s->priority == found->priority && s->order > found->order))
      found = s;
  if (!found || found == for_whom) return found;
  const bool before =
      found->priority > for_whom->priority || (found->priority == for_whom->priority && found->order < for_whom->order);
  return before ? nullptr : found;
}

void Scheduler::preempt(Sequence* s) {
  running_.erase(std::find(running_.begin(), running_.end(), s));
  worst_ -= worst_pages(*s);
  release(s);
  s->computed = s->drafts = s->imported = 0;
  s->state = State::waiting;
  ++s->preempted, ++preemptions_;
  queues_[s->priority].by_key[s->key].push_front(s);
  ++waiting_;
}

bool Scheduler::make_room(Sequence* s, int32_t tokens) {
  while (!grow(s, tokens)) {
    Sequence* gives = victim(s);
    if (!gives || gives == s) return false;
    preempt(gives);
  }
  return true;
}

// Whether all running ones and this one can reach their longest without anyone giving way, if each grows by a token a
// step: at the moment one ends, it and all that last longer have that many more tokens.
bool Scheduler::admits(const Sequence& c) const {
  const int64_t free = int64_t(pool_.free()) + cache_.evictable();
  if (pages_for(c.length) - int64_t(c.pages.size()) > free) return false;
  if (running_.empty()) return true;
  if (worst_ + worst_pages(c) <= pool_.total()) return true;
  struct Left {
    int32_t steps, length;
  };
  std::vector<Left> all;
  all.reserve(running_.size() + 1);
  for (const Sequence* s : running_) all.push_back({s->prompt + s->most - s->length, std::max(s->length, s->computed)});
  all.push_back({c.prompt + c.most - c.length, c.length});
  std::sort(all.begin(), all.end(), [](const Left& a, const Left& b) { return a.steps < b.steps; });
  for (size_t i = 0; i < all.size(); ++i) {
    int64_t pages = 0;
    for (size_t j = i; j < all.size(); ++j) pages += pages_for(int64_t(all[j].length) + all[i].steps);
    if (pages > pool_.total()) return false;
  }
  return true;
}

Sequence* Scheduler::next_waiting() {
  for (auto& [priority, queue] : queues_) {
    std::deque<Sequence*>* best = nullptr;
    double least = 0;
    for (auto& [key, line] : queue.by_key) {
      if (line.empty()) continue;
      if (!best || served_[key] < least) best = &line, least = served_[key];
    }
    if (best) return best->front();
  }
  return nullptr;
}

void Scheduler::match_prefix(Sequence* s) {
  if (!options_.prefix_cache || s->whole) return;
  const int32_t full = (s->length - 1) / kPageTokens;  // the last token is always computed: its logits are wanted
  prefix_queries_ += s->length;
  uint64_t before = s->root;
  for (int32_t p = 0; p < full; ++p) {
    std::span<const int32_t> own;
    if (!s->tokens.empty()) own = std::span(s->tokens).subspan(size_t(p) * kPageTokens, kPageTokens);
    if (size_t(p) >= s->hashes.size()) {
      if (own.empty()) break;
      s->hashes.push_back(page_hash(before, own));
    }
    before = s->hashes[size_t(p)];
    const int32_t page = cache_.find(before, own);
    if (page < 0) break;
    s->pages.push_back(page);
  }
  s->computed = int32_t(s->pages.size()) * kPageTokens;
  if (options_.part_pages && !s->tokens.empty())
    match_part(s, s->pages.empty() ? s->root : s->hashes[s->pages.size() - 1]);
  prefix_hits_ += s->computed;
  if (s->first_run < 0) s->cached = s->computed;
}

// A page that begins as the next tokens do, and its copy, where there is room for both.
void Scheduler::match_part(Sequence* s, uint64_t before) {
  const int64_t free = int64_t(pool_.free()) + cache_.evictable();
  if (pages_for(s->length) - int64_t(s->pages.size()) >= free) return;
  const int32_t most = std::min(kPageTokens - 1, s->length - 1 - s->computed);
  const auto part = cache_.find_part(before, std::span(s->tokens).subspan(size_t(s->computed), size_t(most)));
  s->part = part.page, s->computed += part.tokens;
}

void Scheduler::expire(double now, std::vector<Sequence*>* expired) {
  while (!deadlines_.empty() && deadlines_.begin()->first < now) {
    Sequence* s = deadlines_.begin()->second;
    finish(s, Reason::deadline);
    if (expired) expired->push_back(s);
  }
}

void Scheduler::plan_decode(StepPlan& plan) {
  for (size_t i = 0; i < running_.size();) {
    Sequence* s = running_[i];
    if (!decodes(*s) || s->held) {
      ++i;
      continue;
    }
    if (!make_room(s, s->length + s->drafts)) {
      if (s->drafts && (s->drafts = 0, true)) continue;
      preempt(s);
      continue;
    }
    // Those that gave way stood after it, or before it with a lower priority.
    i = size_t(std::find(running_.begin(), running_.end(), s) - running_.begin()) + 1;
    plan.rows.push_back({s, s->computed, 1 + s->drafts, true});
  }
  std::erase_if(plan.rows, [](const StepRow& r) { return r.sequence->state != State::running; });
  for (const StepRow& r : plan.rows)
    plan.decode_rows += r.count, plan.decode_context += int64_t(r.count) * r.sequence->length;
}

bool Scheduler::plan_prompt(StepPlan& plan, Sequence* s, int32_t& budget) {
  const int32_t count = std::min(budget, s->length - s->computed);
  if (count <= 0) return true;
  if (!grow(s, s->computed + count)) return false;
  if (s->part >= 0) {
    plan.copies.emplace_back(s->part, s->pages[size_t(s->computed / kPageTokens)]);
    cache_.release(s->part), s->part = -1;  // copied before anybody writes, so it may go
  }
  budget -= count;
  plan.rows.push_back({s, s->computed, count, s->computed + count == s->length});
  plan.prompt_tokens += count, ++plan.prompt_rows;
  plan.prompt_context += s->computed + count;
  served_[s->key] += count;
  return true;
}

void Scheduler::plan_prompts(StepPlan& plan, double now) {
  const bool alone = plan.decode_rows == 0;
  if (!alone && !options_.mixed) {
    bool starved = waiting_ > 0 && running() < options_.running_most;
    for (const Sequence* s : running_) starved |= !decodes(*s) && !s->held;
    if (!starved ||
        (waiting_ > 0 && next_waiting() && !admits(*next_waiting()) &&
         std::all_of(running_.begin(), running_.end(), [](const Sequence* s) { return decodes(*s) || s->held; })))
      return;
    plan = {};  // prompts first, decoding in the next step
  }
  int32_t budget = alone || !options_.mixed ? options_.chunk : options_.mixed_chunk;
  for (size_t i = 0; i < running_.size() && budget > 0; ++i) {
    Sequence* s = running_[i];
    if (decodes(*s) || s->length == s->computed) continue;
    if (!plan_prompt(plan, s, budget)) {
      // Its pages went to those that decode; it begins again when there are some.
      if (running_.size() > 1) preempt(s), --i;
    }
  }
  while (budget > 0 && running() < options_.running_most) {
    Sequence* s = next_waiting();
    if (!s) break;
    match_prefix(s);
    if (!admits(*s)) {
      release(s);
      s->computed = 0;
      break;
    }
    leave_queue(s);
    s->state = State::running;
    running_.push_back(s);
    worst_ += worst_pages(*s);
    if (s->first_run < 0) s->first_run = now;
    s->reads = s->length - s->computed, s->in_shares = false;
    if (s->imported && grow(s, s->length)) {
      s->computed = s->imported;
      plan.rows.push_back({s, s->computed, 1, true});
      ++plan.decode_rows, plan.decode_context += s->length;
      continue;
    }
    if (!plan_prompt(plan, s, budget)) {
      preempt(s);
      break;
    }
  }
}

StepPlan Scheduler::plan(double now, std::vector<Sequence*>* expired) {
  StepPlan plan;
  expire(now, expired);
  plan_decode(plan);
  StepPlan decoding = options_.mixed ? StepPlan{} : plan;
  plan_prompts(plan, now);
  if (plan.rows.empty()) return decoding;  // no prompt could go on: pages lack
  return plan;
}

void Scheduler::computed(const StepRow& row, int32_t stay) {
  Sequence* s = row.sequence;
  const int32_t before = s->computed / kPageTokens;
  s->computed = row.start + stay;
  if (!options_.prefix_cache) return;
  for (int32_t p = before; p < s->computed / kPageTokens; ++p) {
    std::span<const int32_t> own;
    if (!s->tokens.empty()) own = std::span(s->tokens).subspan(size_t(p) * kPageTokens, kPageTokens);
    if (size_t(p) >= s->hashes.size()) {
      if (own.empty()) return;
      s->hashes.push_back(page_hash(p ? s->hashes[size_t(p) - 1] : s->root, own));
    }
    cache_.put(p ? s->hashes[size_t(p) - 1] : s->root, s->hashes[size_t(p)], s->pages[size_t(p)], own);
  }
}

void Scheduler::append(Sequence* s, int32_t token) {
  if (!s->tokens.empty()) s->tokens.push_back(token);
  ++s->length;
  served_[s->key] += 1;
}

int32_t Scheduler::repeats(const StepPlan& plan) const {
  if (plan.prompt_tokens || plan.rows.empty() || int32_t(plan.rows.size()) != running()) return 1;
  int32_t steps = std::numeric_limits<int32_t>::max();
  int64_t pages = 0;
  for (const StepRow& r : plan.rows) {
    if (r.count != 1 || !r.sequence->tokens.empty()) return 1;
    steps = std::min(steps, r.sequence->prompt + r.sequence->most - r.sequence->length);
  }
  // As many as the free pages last, a page for each sequence every 16 steps.
  const int64_t free = int64_t(pool_.free()) + cache_.evictable();
  while (steps > 1) {
    pages = 0;
    for (const StepRow& r : plan.rows)
      pages +=
          std::max<int64_t>(0, pages_for(int64_t(r.sequence->length) + steps - 1) - int64_t(r.sequence->pages.size()));
    if (pages <= free) break;
    steps /= 2;
  }
  return std::max(1, steps);
}

bool Scheduler::repeat(const StepPlan& plan, int32_t steps) {
  for (const StepRow& r : plan.rows) {
    Sequence* s = r.sequence;
    if (!grow(s, s->length + steps - 1)) return false;
    s->computed += steps, s->length += steps;
    served_[s->key] += steps;
  }
  return true;
}

}  // namespace trine::serve
