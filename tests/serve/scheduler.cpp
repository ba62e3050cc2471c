// The scheduler under random traffic: pages add up after every step, everyone ends, shares and priorities hold; the
// cache gives only what was put; equal decode steps made at once are the same as one by one.
#include "serve/scheduler.h"

#include <numeric>
#include <random>
#include <set>

#include "serve/twin.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::serve;

namespace {

CostTable table() {
  CostTable t;
  t.prompt = {{64, 256, 512}, {0, 1024}, {0.004, 0.005, 0.012, 0.016, 0.022, 0.03}};
  t.decode = {{1, 4, 16, 64}, {0, 1024}, {0.005, 0.006, 0.0055, 0.008, 0.007, 0.014, 0.012, 0.03}};
  t.launch = 0.0005, t.watts = 100, t.idle_watts = 40, t.dollars_per_hour = 2;
  return t;
}

// Pages held by sequences and the cache are all that is not free.
void check_pages(Scheduler& s) {
  std::set<int32_t> held;
  for (const Sequence* q : s.running_sequences()) {
    CHECK(int32_t(q->pages.size()) * kPageTokens >= q->computed);
    held.insert(q->pages.begin(), q->pages.end());
  }
  CHECK(s.pool().free() + s.cache().evictable() + int32_t(held.size()) == s.pool().total());
}

std::vector<TwinRequest> random_trace(unsigned seed, int count) {
  std::mt19937 random(seed);
  std::vector<TwinRequest> trace;
  double at = 0;
  for (int i = 0; i < count; ++i) {
    at += std::exponential_distribution<double>(8)(random);
    TwinRequest r{at, int32_t(1 + random() % 300), int32_t(1 + random() % 60)};
    if (random() % 2) r.prefix = 1 + random() % 3, r.prefix_tokens = std::min<int32_t>(r.prompt, 96);
    trace.push_back(r);
  }
  return trace;
}

}  // namespace

TEST_CASE("random traffic ends, and pages add up after every step") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    SchedulerOptions o;
    o.pages = 12 + int32_t(random() % 60), o.running_most = 1 + int32_t(random() % 8),
    o.chunk = 1 + int32_t(random() % 200);
    o.mixed_chunk = 1 + int32_t(random() % 40), o.context = 180, o.prefix_cache = random() % 4 != 0,
    o.mixed = random() % 3 != 0;
    Scheduler s(o);
    std::vector<std::unique_ptr<Sequence>> all;
    size_t left = 0;
    for (int step = 0; step < 4000 && (step < 300 || left); ++step) {
      if (step < 300 && random() % 4 == 0) {
        auto q = std::make_unique<Sequence>();
        q->prompt = q->length = 1 + int32_t(random() % 120), q->most = 1 + int32_t(random() % 50);
        q->priority = int32_t(random() % 2), q->key = int32_t(random() % 3), q->id = int64_t(all.size());
        for (int32_t i = 0; i < q->prompt; ++i) q->tokens.push_back(int32_t(i < 64 ? i : random() % 5));
        if (!s.fits(q->prompt, q->most)) continue;
        s.add(q.get());
        all.push_back(std::move(q)), ++left;
      }
      const StepPlan plan = s.plan(step);
      check_pages(s);
      std::set<const Sequence*> once;
      for (const StepRow& r : plan.rows) {
        CHECK(once.insert(r.sequence).second);
        CHECK(r.start == r.sequence->computed);
        CHECK(int32_t(r.sequence->pages.size()) * kPageTokens >= r.start + r.count);
      }
      if (left && plan.rows.empty()) FAIL("nothing runs while " << left << " wait, seed " << seed);
      for (const StepRow& r : plan.rows) {
        if (r.samples) s.append(r.sequence, int32_t(random() % 5));
        s.computed(r, r.count);
        if (r.samples && r.sequence->length - r.sequence->prompt >= r.sequence->most)
          s.finish(r.sequence, Reason::length), --left;
      }
      if (random() % 50 == 0 && !all.empty()) {
        Sequence* q = all[random() % all.size()].get();
        if (q->state != State::finished) s.finish(q, Reason::cancelled), --left;
      }
    }
    CHECK(left == 0);
    CHECK(s.pages_used() == 0);
  }
}

TEST_CASE("exact admission: without the cache and with prompts read at once nobody gives way") {
  SchedulerOptions o;
  o.pages = 40, o.chunk = 4096, o.mixed_chunk = 4096, o.prefix_cache = false, o.context = 600;
  Scheduler s(o);
  std::mt19937 random(7);
  std::vector<std::unique_ptr<Sequence>> all;
  for (int i = 0; i < 60; ++i) {
    all.push_back(std::make_unique<Sequence>());
    Sequence& q = *all.back();
    q.prompt = q.length = 1 + int32_t(random() % 100), q.most = 1 + int32_t(random() % 200);
    REQUIRE(s.fits(q.prompt, q.most));
    s.add(&q);
  }
  for (StepPlan plan = s.plan(0); !plan.rows.empty(); plan = s.plan(0))
    for (const StepRow& r : plan.rows) {
      s.append(r.sequence, 0), s.computed(r, r.count);
      if (r.sequence->length - r.sequence->prompt >= r.sequence->most) s.finish(r.sequence, Reason::length);
    }
  for (const auto& q : all) CHECK(q->state == State::finished);
  CHECK(s.preemptions() == 0);
}

TEST_CASE("keys share alike, and a higher priority goes first") {
  SchedulerOptions o;
  o.pages = 64, o.running_most = 1, o.chunk = 16;
  Scheduler s(o);
  std::vector<std::unique_ptr<Sequence>> all;
  const auto add = [&](int32_t key, int32_t priority) {
    all.push_back(std::make_unique<Sequence>());
    all.back()->prompt = all.back()->length = 8, all.back()->most = 1, all.back()->key = key,
    all.back()->priority = priority;
    s.add(all.back().get());
  };
  for (int i = 0; i < 6; ++i) add(0, 0);
  add(1, 0), add(2, 5);
  std::vector<int32_t> order;
  for (StepPlan plan = s.plan(0); !plan.rows.empty(); plan = s.plan(0))
    for (const StepRow& r : plan.rows) {
      order.push_back(r.sequence->key);
      s.append(r.sequence, 0), s.computed(r, r.count), s.finish(r.sequence, Reason::length);
    }
  CHECK(order[0] == 2);
  CHECK((order[1] == 1 || order[2] == 1));  // one of key 0 at most before the other key's only one
}

TEST_CASE("the cache gives what was put, the longest unused goes first, and leaves before what they follow") {
  PagePool pool(4);
  PrefixCache cache(pool);
  std::vector<int32_t> tokens(kPageTokens, 7), others(kPageTokens, 8);
  const uint64_t root = root_hash(""), first = page_hash(root, tokens), second = page_hash(first, tokens),
                 third = page_hash(root, others);
  CHECK(root_hash("a") != root_hash("b"));
  const auto put = [&](uint64_t before, uint64_t hash, std::span<const int32_t> of) {
    const int32_t page = pool.take();
    cache.put(before, hash, page, of);
    cache.release(page);
    return page;
  };
  const int32_t a = put(root, first, tokens), b = put(first, second, tokens);
  put(root, third, others);
  CHECK(cache.find(first, others) == -1);  // the hash alone is not believed
  CHECK(cache.find(first, tokens) == a);
  CHECK(cache.evictable() == 2);
  CHECK(cache.evict());
  CHECK(cache.page_of(second) == -1);  // used before the third was, and it is a leaf
  CHECK(cache.evict());
  CHECK_FALSE(cache.evict());  // the first is held
  cache.release(a);
  CHECK(cache.evict());
  CHECK(pool.free() == 4);
  CHECK(b != a);
}

TEST_CASE("the page that begins alike is found, and one that a sequence ended in") {
  PagePool pool(6);
  PrefixCache cache(pool);
  std::vector<int32_t> tokens(kPageTokens), others, tail{0, 1, 2, 3, 9};
  std::iota(tokens.begin(), tokens.end(), 0);
  others = tokens, others[7] = 70;
  const uint64_t root = root_hash("");
  const auto put = [&](uint64_t before, std::span<const int32_t> of) {
    const int32_t page = pool.take();
    cache.put(before, page_hash(before, of), page, of);
    cache.release(page);
    return page;
  };
  const int32_t a = put(root, tokens), b = put(root, others), c = put(root, tail);
  const auto found = [&](std::vector<int32_t> of) {
    const auto part = cache.find_part(root, of);
    if (part.page >= 0) cache.release(part.page);
    return std::pair{part.page, part.tokens};
  };
  CHECK(found({0, 1, 2, 3, 4, 5, 6, 7, 80}) == std::pair{a, 8});
  CHECK(found({0, 1, 2, 3, 4, 5, 6, 70}) == std::pair{b, 8});
  CHECK(found({0, 1, 2, 3, 9, 5}) == std::pair{c, 5});
  CHECK(found({0, 1, 2, 3, 4, 5, 6}).second == 7);
  CHECK(found({1, 1}) == std::pair{-1, 0});
  CHECK(found({}) == std::pair{-1, 0});
  CHECK(cache.find_part(root + 1, tokens).page == -1);
  CHECK(cache.find(page_hash(root, tail), {}) == c);  // held
  cache.release(c);
  for (int i = 0; i < 3; ++i) CHECK(cache.evict());
  CHECK(found({0, 1, 2}) == std::pair{-1, 0});
  CHECK(pool.free() == 6);
}

TEST_CASE("a prompt that needs every page is let in although some of it is cached") {
  SchedulerOptions o;
  o.pages = 4, o.context = 64, o.chunk = 64;
  Scheduler s(o);
  for (const int32_t prompt : {60, 63, 63, 50}) {
    Sequence q;
    q.prompt = q.length = prompt, q.most = 1;
    for (int32_t i = 0; i < prompt; ++i) q.tokens.push_back(i == 55 ? prompt : i);
    s.add(&q);
    for (int step = 0; q.state != State::finished; ++step) {
      REQUIRE(step < 100);
      for (const StepRow& r : s.plan(0).rows) {
        if (r.samples) s.append(&q, 7);
        s.computed(r, r.count);
        if (r.samples) s.finish(&q, Reason::length);
      }
    }
    check_pages(s);
  }
  CHECK(s.prefix_hits() >= 3 * 48);
  CHECK(s.pages_used() == 0);
}

TEST_CASE("the twin: steps made at once take the times of steps one by one") {
  const auto trace = random_trace(3, 400);
  for (const int copies : {1, 3}) {
    TwinOptions o;
    o.cost = table(), o.copies = copies, o.scheduler.pages = 300, o.scheduler.running_most = 16,
    o.scheduler.context = 1024;
    o.jump = false;
    const auto one = run_twin(trace, o);
    o.jump = true;
    const auto many = run_twin(trace, o);
    REQUIRE(one);
    REQUIRE(many);
    CHECK(one->seconds == doctest::Approx(many->seconds).epsilon(1e-9));
    CHECK(one->ttft.p99 == doctest::Approx(many->ttft.p99).epsilon(1e-6));
    CHECK(one->e2e.mean == doctest::Approx(many->e2e.mean).epsilon(1e-6));
    CHECK(one->steps == many->steps);
    CHECK(one->tokens == many->tokens);
    CHECK(one->rejected == 0);
  }
}

TEST_CASE("the twin: copies for prompts apart, and copies that come with load") {
  const auto trace = random_trace(5, 600);
  TwinOptions o;
  o.cost = table(), o.copies = 4, o.prompt_copies = 2, o.scheduler.pages = 400, o.scheduler.context = 1024;
  o.cost.transfer_seconds_per_token = 1e-5;
  const auto apart = run_twin(trace, o);
  REQUIRE(apart);
  int64_t wanted = 0;
  for (const TwinRequest& r : trace) wanted += r.output;
  CHECK(apart->tokens == wanted);
  CHECK(apart->transfer > 0);
  o.prompt_copies = 0, o.copies = 1, o.copies_most = 4, o.cold_start = 5, o.scale_up = 2;
  const auto scaled = run_twin(trace, o);
  REQUIRE(scaled);
  CHECK(scaled->tokens == wanted);
  CHECK(scaled->copies_peak > 1);
  o.copies = 0;
  CHECK_FALSE(run_twin(trace, o));
}
