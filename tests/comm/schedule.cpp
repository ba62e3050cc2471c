// Schedules: every algorithm on every kind of group leaves each rank with what the collective promises, sends no less
// than the lower bound, and is the one Neuron's bands name.
#include "comm/schedule.h"

#include "base/text.h"
#include "comm/outcome.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::comm;

static Cluster cluster(const char* instance, int64_t nodes = 1, int64_t lnc = 1) {
  return {*arch::find_instance(instance), nodes, lnc};
}

// Ranks spread over the machine: `count` of them, every `stride`-th core.
static std::vector<Place> spread(const Cluster& c, int64_t count, int64_t stride) {
  std::vector<Place> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(place_of(c, i * stride));
  return out;
}

TEST_CASE("every schedule keeps its promise") {
  struct Row {
    const char* instance;
    int64_t nodes, lnc, ranks, stride;
  };
  static constexpr Row kRows[] = {
      {"trn1.2xlarge", 1, 1, 1, 1},       {"trn1.2xlarge", 1, 1, 2, 1},           {"trn1.32xlarge", 1, 1, 2, 2},
      {"trn1.32xlarge", 1, 1, 7, 1},      {"trn1.32xlarge", 1, 1, 8, 1},          {"trn1.32xlarge", 1, 1, 8, 3},
      {"trn1.32xlarge", 1, 1, 16, 2},     {"trn1.32xlarge", 1, 1, 32, 1},         {"trn2.48xlarge", 1, 2, 64, 1},
      {"inf2.48xlarge", 1, 1, 24, 1},     {"inf2.24xlarge", 1, 1, 12, 1},         {"inf1.6xlarge", 1, 1, 16, 1},
      {"trn2-ultraserver", 1, 2, 128, 2}, {"trn3-gen2-ultraserver", 1, 2, 72, 8}, {"trn1.32xlarge", 2, 1, 64, 1},
      {"trn1.32xlarge", 4, 1, 4, 32},     {"trn1.32xlarge", 3, 1, 24, 4},         {"trn1.32xlarge", 4, 1, 16, 8},
      {"trn1.32xlarge", 2, 1, 33, 1},     {"trn2.48xlarge", 2, 2, 128, 1},        {"trn2.48xlarge", 4, 2, 16, 16},
  };
  for (const Row& row : kRows) {
    const Cluster c = cluster(row.instance, row.nodes, row.lnc);
    const std::vector<Place> ranks = spread(c, row.ranks, row.stride);
    for (const int64_t bytes : {int64_t{64}, int64_t{8} << 20, int64_t{256} << 20})
      for (int kind = 0; kind < 6; ++kind) {
        Request request{.kind = static_cast<Collective>(kind), .bytes = bytes};
        request.root = static_cast<int32_t>(row.ranks / 2);
        for (int32_t r = 0; r + 1 < row.ranks; r += 2)
          request.pairs.push_back({r, r + 1}), request.pairs.push_back({r + 1, r});
        const auto s = make_schedule(c, ranks, request);
        REQUIRE(s.has_value());
        INFO(row.instance << " " << row.nodes << " nodes, " << row.ranks << " ranks: " << name(s->kind) << " "
                          << s->text());
        const auto verified = verify(*s, request);
        CHECK_MESSAGE(verified.has_value(), (verified ? "" : verified.error().message));
      }
  }
}

TEST_CASE("random groups, in any order, over any machine") {
  uint64_t state = 20261115;
  const auto random = [&](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>((state >> 33) % below);
  };
  const auto all = arch::all_instances();
  for (int i = 0; i < 400; ++i) {
    const arch::Instance& instance = all[static_cast<size_t>(random(all.size()))];
    const Cluster c{&instance, 1 + random(3), 1};
    std::vector<int64_t> cores;
    for (int64_t r = 0; r < c.ranks(); ++r) cores.push_back(r);
    const size_t count = static_cast<size_t>(1 + random(std::min<uint64_t>(20, cores.size())));
    std::vector<Place> ranks;
    for (size_t r = 0; r < count; ++r) {
      std::swap(cores[r], cores[r + static_cast<size_t>(random(cores.size() - r))]);
      ranks.push_back(place_of(c, cores[r]));
    }
    Request request{.kind = static_cast<Collective>(random(6)), .bytes = int64_t{1} << random(30)};
    request.root = static_cast<int32_t>(random(count));
    if (random(2)) request.algorithm = static_cast<Algorithm>(1 + random(7));
    const auto s = make_schedule(c, ranks, request);
    INFO(instance.name << " " << c.nodes << " nodes, " << count << " ranks, " << name(request.kind));
    if (!s) {
      CHECK(request.algorithm.has_value());  // only what was asked for can be impossible
      continue;
    }
    const auto verified = verify(*s, request);
    CHECK_MESSAGE(verified.has_value(), (verified ? "" : verified.error().message));
  }
}

TEST_CASE("each algorithm, asked for by name") {
  const Cluster c = cluster("trn1.32xlarge");
  for (const Algorithm how : {Algorithm::mesh, Algorithm::rdh, Algorithm::ring, Algorithm::kangaring})
    for (const Collective kind : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter})
      for (const int64_t ranks : {4, 8, 16, 32}) {
        const Request request{.kind = kind, .bytes = 1024, .algorithm = how};
        const auto s = make_schedule(c, first_ranks(c, ranks), request);
        REQUIRE(s.has_value());
        CHECK(s->algorithm == how);
        CHECK(verify(*s, request).has_value());
      }
  const Request odd{.kind = Collective::all_reduce, .bytes = 8, .algorithm = Algorithm::rdh};
  CHECK(make_schedule(c, first_ranks(c, 6), odd).error().message.find("a power of two of chips") != std::string::npos);
}

TEST_CASE("a broken schedule is found out") {
  const Cluster c = cluster("trn1.32xlarge");
  const Request request{.kind = Collective::all_reduce, .bytes = 1024, .algorithm = Algorithm::ring};
  Schedule s = *make_schedule(c, first_ranks(c, 8), request);
  s.steps[3].moves.pop_back();
  CHECK_FALSE(verify(s, request).has_value());
  Schedule twice = *make_schedule(c, first_ranks(c, 8), request);
  twice.steps.insert(twice.steps.begin(), twice.steps[0]);
  CHECK_FALSE(verify(twice, request).has_value());
}

TEST_CASE("the algorithm by size band and topology") {
  struct Row {
    const char* instance;
    int64_t nodes, lnc, ranks;
    Collective kind;
    int64_t bytes;
    const char* expected;
  };
  constexpr Collective ar = Collective::all_reduce, ag = Collective::all_gather, rs = Collective::reduce_scatter;
  static constexpr Row kRows[] = {
      {"trn1.32xlarge", 1, 1, 1, ar, 1 << 20, "none"},
      {"trn1.32xlarge", 1, 1, 2, ar, 1 << 30, "single_step"},  // two ranks send no more that way
      {"trn1.32xlarge", 1, 1, 32, ar, 1 << 10, "single_step"},
      {"trn1.32xlarge", 1, 1, 32, ar, 1 << 19, "mesh"},
      {"trn1.32xlarge", 1, 1, 32, ar, 1 << 22, "rdh"},
      {"trn1.32xlarge", 1, 1, 32, ar, 1 << 27, "kangaring"},
      {"trn1.32xlarge", 1, 1, 32, ag, 1 << 10, "mesh"},
      {"trn1.32xlarge", 1, 1, 6, rs, 1 << 22, "kangaring"},  // three chips are no cube
      {"trn1.32xlarge", 1, 1, 5, rs, 1 << 22, "ring"},       // nor are there pairs
      {"trn2.48xlarge", 1, 2, 64, ag, 1 << 27, "kangaring"},
      {"trn3-gen1-ultraserver", 1, 2, 64, ag, 1 << 27, "mesh"},  // a switch is never oversubscribed
      {"trn1.32xlarge", 1, 1, 32, Collective::all_to_all, 1 << 20, "direct"},
      {"trn2.48xlarge", 2, 2, 128, ar, 1 << 10, "hierarchical (mesh inside, single_step between nodes)"},
      {"trn2.48xlarge", 16, 2, 1024, ar, 1 << 27, "hierarchical (kangaring inside, rdh between nodes)"},
      {"trn1.32xlarge", 2, 1, 64, ar, 1 << 10, "ring"},  // flat over all ranks on Trainium1 alone
      {"trn1.32xlarge", 2, 1, 33, ar, 1 << 10, "ring"},  // an uneven group
  };
  for (const Row& row : kRows) {
    const Cluster c = cluster(row.instance, row.nodes, row.lnc);
    const auto s = make_schedule(c, first_ranks(c, row.ranks), {.kind = row.kind, .bytes = row.bytes});
    REQUIRE(s.has_value());
    INFO(row.instance << " " << row.ranks << " ranks, " << row.bytes << " bytes");
    CHECK_EQ(s->text(), row.expected);
  }
}

TEST_CASE("ranks send no less than they must, and rings no more") {
  const Cluster c = cluster("trn1.32xlarge");
  for (const auto& [how, ring] :
       {std::pair{Algorithm::ring, true}, {Algorithm::rdh, false}, {Algorithm::mesh, false}}) {
    const Schedule s = *make_schedule(c, first_ranks(c, 16), {.bytes = 1 << 20, .algorithm = how});
    int64_t pieces = 0;
    for (const Step& step : s.steps)
      for (const Move& m : step.moves) pieces += m.count;
    const int64_t least = 2 * 15 * int64_t{s.parts};  // 2 (n - 1) / n of the buffer, n ranks
    CHECK(pieces >= least);
    if (ring) CHECK(pieces == least);
  }
}

TEST_CASE("sums of a mesh and of rdh are the same on every rank") {
  const Cluster c = cluster("trn1.32xlarge");
  for (const Algorithm how :
       {Algorithm::single_step, Algorithm::mesh, Algorithm::rdh, Algorithm::ring, Algorithm::kangaring})
    for (const PieceOutcome& piece : outcome(*make_schedule(c, first_ranks(c, 32), {.bytes = 1024, .algorithm = how})))
      for (const int32_t held : piece.holds) CHECK(held == piece.holds[0]);
}

TEST_CASE("requests that cannot be") {
  const Cluster c = cluster("trn1.2xlarge");
  CHECK_FALSE(make_schedule(c, {}, {}).has_value());
  CHECK_FALSE(make_schedule(c, std::vector<Place>{{0, 0, 0}, {0, 0, 0}}, {}).has_value());
  CHECK_FALSE(make_schedule(c, std::vector<Place>{{0, 3, 0}}, {}).has_value());
  CHECK_FALSE(make_schedule(c, first_ranks(c, 2), {.kind = Collective::broadcast, .root = 2}).has_value());
  CHECK_FALSE(make_schedule(c, first_ranks(c, 2), {.kind = Collective::permute, .pairs = {{0, 5}}}).has_value());
  CHECK_FALSE(make_schedule(c, first_ranks(c, 2), {.algorithm = Algorithm::direct}).has_value());
}
