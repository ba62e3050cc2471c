// The engine with values: a request's tokens are the same alone, in a crowd, in chunks, after giving way and with
// guesses; the host's scheduler and the twin's decide alike; masks, sessions, choices and cancellations.
#include "serve/engine.h"

#include <filesystem>

#include "base/pool.h"
#include "serve/twin.h"
#include "tests/serve/models.h"

using namespace trine;
using namespace trine::serve;

namespace {

EngineOptions options(int32_t pages = 200) {
  EngineOptions o;
  o.scheduler.pages = pages, o.scheduler.context = 256, o.scheduler.running_most = 8, o.scheduler.chunk = 64,
  o.scheduler.mixed_chunk = 16;
  return o;
}

std::unique_ptr<Engine> engine(EngineOptions o, int draft = 0) {
  auto made = Engine::make(random_decoder(1), std::move(o),
                           draft ? std::make_unique<run::Decoder>(random_decoder(unsigned(draft))) : nullptr);
  REQUIRE(made);
  return *std::move(made);
}

Request request(unsigned seed, int32_t prompt, int32_t most, float temperature) {
  std::mt19937 random(seed);
  Request r;
  for (int32_t i = 0; i < prompt; ++i) r.prompt.push_back(int32_t(random() % 97));
  r.max_tokens = most, r.sampling.temperature = temperature, r.sampling.seed = seed;
  return r;
}

struct Collected {
  std::map<std::pair<int64_t, int32_t>, std::vector<int32_t>> tokens;
  std::map<std::pair<int64_t, int32_t>, Event> ends;
  std::vector<Event> others;
};

// Events until so many choices have ended; masks are answered with `allow`.
Collected collect(Engine& e, size_t ends, const std::vector<uint8_t>& allow = {}) {
  Collected c;
  while (c.ends.size() < ends) {
    const std::vector<Event> events = e.wait(60);
    if (events.empty()) FAIL("no event in a minute");
    for (const Event& event : events) {
      const std::pair key{event.id, event.choice};
      if (event.kind == Event::Kind::token)
        c.tokens[key].push_back(event.sampled.token);
      else if (event.kind == Event::Kind::finished)
        c.ends[key] = event;
      else
        c.others.push_back(event);
      if (event.kind == Event::Kind::mask) e.mask(event.id, event.choice, allow);
    }
  }
  return c;
}

std::vector<int32_t> alone(const Request& r, EngineOptions o = options()) {
  auto e = engine(std::move(o));
  const int64_t id = *e->add(r);
  return collect(*e, 1).tokens[{id, 0}];
}

}  // namespace

TEST_CASE("tokens do not depend on who else is in the batch, on chunks, on room, or on guesses") {
  std::vector<Request> all;
  for (unsigned i = 0; i < 12; ++i)
    all.push_back(request(i, 3 + int32_t(i * 7 % 70), 5 + int32_t(i % 4) * 8, i % 3 ? 0.9f : 0.0f));
  for (Request& r : all) r.sampling.top_k = 20, r.sampling.frequency = 0.2f;
  std::vector<std::vector<int32_t>> expected;
  for (const Request& r : all) expected.push_back(alone(r));
  for (int variant = 0; variant < 7; ++variant) {
    EngineOptions o = options(variant == 1 ? 14 : 200);  // little room: some give way
    if (variant == 2) o.scheduler.chunk = 5, o.scheduler.mixed_chunk = 3;
    if (variant == 3) o.scheduler.prefix_cache = false, o.scheduler.mixed = false;
    if (variant == 4) o.drafts = 4, o.ngram = 2;
    auto e = engine(std::move(o), variant == 5 ? 1 : variant == 6 ? 2 : 0);  // a draft that agrees, one that does not
    std::vector<int64_t> ids;
    for (const Request& r : all) ids.push_back(*e->add(r));
    Collected c = collect(*e, all.size());
    for (size_t i = 0; i < all.size(); ++i) CHECK(c.tokens[{ids[i], 0}] == expected[i]);
    const Stats stats = e->stats();
    CHECK(stats.pages_used == 0);
    if (variant == 5) CHECK(stats.accepted * 10 > stats.drafted * 7);
    if (variant == 6) CHECK(stats.drafted > 0);
  }
}

TEST_CASE("a trace on the chip's clock: values and twin make the same decisions") {
  CostTable t;
  t.prompt = {{16, 64}, {0, 256}, {0.004, 0.005, 0.012, 0.016}};
  t.decode = {{1, 4, 16}, {0, 256}, {0.005, 0.006, 0.0055, 0.008, 0.007, 0.014}};
  for (unsigned seed = 0; seed < 4; ++seed) {
    std::mt19937 random(seed);
    EngineOptions o = options(seed % 2 ? 20 : 100);
    o.cost = t, o.chip_clock = o.hash = true, o.scheduler.prefix_cache = false;
    std::vector<Request> requests;
    std::vector<TwinRequest> trace;
    double at = 0;
    for (int i = 0; i < 40; ++i) {
      at += std::exponential_distribution<double>(20)(random);
      Request r = request(seed * 100 + unsigned(i), 1 + int32_t(random() % 90), 1 + int32_t(random() % 20), 1.0f);
      r.at_s = at;
      trace.push_back({at, int32_t(r.prompt.size()), r.max_tokens});
      requests.push_back(std::move(r));
    }
    TwinOptions w;
    w.scheduler = o.scheduler, w.cost = t, w.hash = true, w.jump = false;
    auto e = engine(std::move(o));
    REQUIRE(e->replay(requests));
    collect(*e, requests.size());
    const Stats s = e->stats();
    const auto twin = run_twin(trace, w);
    REQUIRE(twin);
    CHECK(s.decisions == twin->decisions);
    CHECK(s.steps == twin->steps);
    CHECK(s.chip_s == doctest::Approx(twin->seconds + trace[0].arrival).epsilon(1e-9));
  }
}

TEST_CASE("a mask is obeyed, and who waits for one does not hold up others") {
  auto e = engine(options());
  std::vector<uint8_t> even(13, 0x55);
  Request r = request(3, 10, 12, 1.0f);
  r.constrained = true;
  const int64_t id = *e->add(r), other = *e->add(request(4, 10, 12, 1.0f));
  Collected c = collect(*e, 2, even);
  CHECK(c.tokens[{id, 0}].size() == 12);
  for (const int32_t t : c.tokens[{id, 0}]) CHECK(t % 2 == 0);
  CHECK(c.tokens[{other, 0}] == alone(request(4, 10, 12, 1.0f)));
}

TEST_CASE("choices are their own draws; the best of several are told; a cancelled one ends") {
  auto e = engine(options());
  Request r = request(5, 20, 10, 1.0f);
  r.n = 3;
  const int64_t id = *e->add(r);
  Collected c = collect(*e, 3);
  CHECK(c.tokens[{id, 0}] != c.tokens[{id, 1}]);
  r.n = 1, r.best_of = 4;
  const int64_t best = *e->add(r);
  c = collect(*e, 1);
  CHECK(c.tokens[{best, 0}].size() == 10);
  const int64_t long_one = *e->add(request(6, 10, 200, 1.0f));
  e->cancel(long_one);
  c = collect(*e, 1);
  CHECK(c.ends[{long_one, 0}].reason == Reason::cancelled);
  CHECK_FALSE(e->add(request(7, 200, 100, 1.0f)));  // past the context
  Request wrong = request(8, 4, 4, 1.0f);
  wrong.prompt[0] = 97;
  CHECK_FALSE(e->add(wrong));
}

TEST_CASE("a session goes on in another engine, without its history being computed, with the same tokens") {
  const std::string store =
      (std::filesystem::temp_directory_path() / ("trine_serve_" + std::to_string(::getpid()))).string();
  EngineOptions o = options();
  o.page_store = store, o.model_id = 42;
  Request r = request(9, 70, 20, 0.8f);
  r.session = "s";
  auto first = engine(o);
  const int64_t id = *first->add(r);
  std::vector<int32_t> history = r.prompt, out = collect(*first, 1).tokens[{id, 0}];
  history.insert(history.end(), out.begin(), out.end());
  const auto saved = first->save_session("s");
  REQUIRE(saved);
  CHECK(saved->tokens == history);
  first.reset();
  auto second = engine(o);
  const auto restored = second->restore_session("s", *saved);
  REQUIRE(restored);
  CHECK(*restored == int32_t((history.size() - 1) / kPageTokens) * kPageTokens);
  Request next = request(10, 5, 20, 0.8f);
  next.prompt.insert(next.prompt.begin(), history.begin(), history.end());
  const int64_t again = *second->add(next);
  Collected c = collect(*second, 1);
  CHECK(c.ends[{again, 0}].usage.cached == *restored);
  CHECK(c.tokens[{again, 0}] == alone(next));
  std::filesystem::remove_all(store);
}

TEST_CASE("a known prefix is taken to its last token, within a page, and gives the same tokens") {
  for (const int draft : {0, 2}) {
    auto e = engine(options(), draft);
    const Request first = request(20, 43, 9, 0.7f);
    const int64_t one = *e->add(first);
    CHECK(collect(*e, 1).tokens[{one, 0}] == alone(first));
    for (const int32_t alike : {43, 40, 35, 33, 20, 1, 0}) {
      Request next = request(unsigned(100 + alike), 43, 12, 0.7f);
      std::copy_n(first.prompt.begin(), alike, next.prompt.begin());
      if (alike < 43) next.prompt[size_t(alike)] = (first.prompt[size_t(alike)] + 1) % 97;
      const int64_t id = *e->add(next);
      Collected c = collect(*e, 1);
      CHECK(c.tokens[{id, 0}] == alone(next));
      CHECK(c.ends[{id, 0}].usage.cached >= std::min(alike, 42));  // the last token's logits are wanted
    }
  }
}

TEST_CASE("a draft model's programs are in the chip's time, and the request pays for them") {
  const auto flat = [](double prompt, double decode) {
    CostTable t;
    t.prompt = {{16, 64}, {0, 256}, {prompt, prompt, prompt, prompt}};
    t.decode = {{1, 16}, {0, 256}, {decode, decode, decode, decode}};
    t.dollars_per_hour = 3600, t.watts = 10;
    return t;
  };
  EngineOptions o = options();
  o.cost = flat(0.004, 0.005), o.draft_cost = flat(0.002, 0.001), o.drafts = 3;
  auto e = engine(std::move(o), 1);
  const int64_t id = *e->add(request(40, 20, 30, 0.0f));
  const Event end = collect(*e, 1).ends[{id, 0}];
  CHECK(end.usage.accepted * 10 > end.usage.drafted * 7);
  const Stats stats = e->stats();
  const auto checks = double(stats.steps - 1);  // after the step that read the prompt
  CHECK(checks < 29);
  // Beside its guesses the draft model reads the last of them in each of these steps.
  const double seconds = 0.004 + 0.002 + 0.005 * checks + 0.001 * (checks + double(end.usage.drafted));
  CHECK(stats.usd == doctest::Approx(seconds));
  CHECK(end.usd == doctest::Approx(seconds));
  CHECK(end.joules == doctest::Approx(10 * seconds));
}

TEST_CASE("guessed tokens are rows of the decoding program, and read a sequence's keys once") {
  CostTable t;
  t.prompt = {{16, 64}, {0, 256}, {0.004, 0.005, 0.012, 0.016}};
  t.decode = {{1, 2, 4}, {0, 256}, {0.001, 0.011, 0.002, 0.022, 0.004, 0.044}};
  Sequence s;
  s.length = 128;
  StepPlan plan;
  plan.rows = {{.sequence = &s, .start = 127, .count = 4, .samples = true}};
  plan.decode_rows = 4, plan.decode_context = 4 * 128;
  CHECK(cost_of(t, plan).decode == doctest::Approx(0.004 + 0.005));  // four rows, and the keys of one sequence
  plan.rows[0].count = 1, plan.decode_rows = 1, plan.decode_context = 128;
  CHECK(cost_of(t, plan).decode == doctest::Approx(0.006));
}

TEST_CASE("a prompt costs the chip the same, whether it is read alone or in small chunks beside decoding") {
  CostTable t;
  t.prompt = {{16, 64}, {0, 256}, {0.004, 0.005, 0.012, 0.016}};
  t.decode = {{1, 4, 16}, {0, 256}, {0.005, 0.006, 0.0055, 0.008, 0.007, 0.014}};
  t.dollars_per_hour = 3600, t.watts = 10;
  // The first request writes for as long as the prompt is read, or ends while it is.
  for (const auto& [prompt, written] :
       {std::pair{5, 240}, {16, 240}, {40, 240}, {64, 240}, {40, 9}, {64, 9}, {64, 16}}) {
    EngineOptions o = options();
    o.cost = t, o.scheduler.mixed_chunk = 3;
    auto e = engine(std::move(o));
    const int64_t writes = *e->add(request(30, 2, written, 1.0f));
    int64_t id = 0;
    std::map<int64_t, Event> ends;
    while (ends.size() < 2) {
      const std::vector<Event> events = e->wait(60);
      if (events.empty()) FAIL("no event in a minute");
      if (!id) id = *e->add(request(31, prompt, 1, 0.0f));  // the first one writes, or has ended: both cost the same
      for (const Event& event : events)
        if (event.kind == Event::Kind::finished) ends[event.id] = event;
    }
    CHECK(ends[id].usd == doctest::Approx(t.prompt.at(prompt, prompt)));
    CHECK(ends[id].joules == doctest::Approx(10 * t.prompt.at(prompt, prompt)));
    CHECK(ends[writes].usage.completion == written);
    const Stats s = e->stats();
    CHECK(s.usd == doctest::Approx(ends[id].usd + ends[writes].usd));
    CHECK(s.chip_s == doctest::Approx(s.usd));
  }
}

TEST_CASE("an adapter changes its own requests alone") {
  auto e = engine(options());
  std::mt19937 random(11);
  run::Adapter a;
  a.layers.emplace("layers.0.q", run::LowRank{random_matrix(random, 4, 64), random_matrix(random, 64, 4)});
  a.layers.emplace("layers.1.down", run::LowRank{random_matrix(random, 4, 96), random_matrix(random, 64, 4)});
  a.scale = 3;
  REQUIRE(e->load_adapter("mine", std::move(a)));
  Request with = request(12, 30, 10, 0.0f), without = with;
  with.adapter = "mine";
  const int64_t x = *e->add(with), y = *e->add(without);
  Collected c = collect(*e, 2);
  CHECK(c.tokens[{x, 0}] != c.tokens[{y, 0}]);
  CHECK(c.tokens[{y, 0}] == alone(without));
  CHECK(e->drop_adapter("mine"));
  CHECK_FALSE(e->add(with));
  // Another of the same name: nothing is left of the first.
  auto fresh = engine(options());
  for (auto* into : {&e, &fresh}) {
    std::mt19937 same(13);
    run::Adapter b;
    b.layers.emplace("layers.0.q", run::LowRank{random_matrix(same, 4, 64), random_matrix(same, 64, 4)});
    b.scale = 5;
    REQUIRE((*into)->load_adapter("mine", std::move(b)));
  }
  const int64_t again = *e->add(with), there = *fresh->add(with);
  c = collect(*e, 1);
  CHECK(c.ends[{again, 0}].usage.cached == 0);
  CHECK(c.tokens[{again, 0}] == collect(*fresh, 1).tokens[{there, 0}]);
}

TEST_CASE("who is past its deadline ends, an embedding is the last state, and a stop token ends") {
  EngineOptions o = options();
  o.eos = {3};
  auto e = engine(std::move(o));
  Request late = request(13, 60, 190, 1.0f);
  late.deadline_s = 1e-6;
  const int64_t id = *e->add(late);
  CHECK(collect(*e, 1).ends[{id, 0}].reason == Reason::deadline);
  Request embed = request(14, 40, 1, 1.0f);
  embed.embed = true;
  const int64_t one = *e->add(embed);
  Collected c = collect(*e, 1);
  REQUIRE(c.others.size() == 2);
  const Event& values = c.others[0].kind == Event::Kind::embedding ? c.others[0] : c.others[1];
  CHECK(values.id == one);
  CHECK(values.values.size() == 64);
  Request ends = request(15, 10, 50, 0.0f);
  ends.sampling.bias[3] = 100;
  const int64_t stopped = *e->add(ends);
  c = collect(*e, 1);
  CHECK(c.ends[{stopped, 0}].reason == Reason::stop);
  CHECK(c.tokens[{stopped, 0}] == std::vector<int32_t>{3});
  ends.ignore_eos = true;
  const int64_t goes_on = *e->add(ends);
  CHECK(collect(*e, 1).tokens[{goes_on, 0}].size() == 50);
  ends.ignore_eos = false, ends.min_tokens = 4;
  const int64_t later = *e->add(ends);
  CHECK(collect(*e, 1).tokens[{later, 0}].size() == 5);
}
