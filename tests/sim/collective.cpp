// Times of collectives: by hand for small cases, above their lower bounds for all, and never faster on worse wires.
#include "sim/cluster/collective.h"

#include "arch/asm/asm.h"
#include "base/text.h"
#include "sim/core/timing.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::sim;
using comm::Algorithm;
using comm::Cluster;
using comm::Collective;

static double ns_of(const Cluster& c, int64_t ranks, const comm::Request& request) {
  const auto t = time_collective(c, comm::first_ranks(c, ranks), request);
  REQUIRE(t.has_value());
  CHECK(t->ns == doctest::Approx(t->start_ns + t->latency_ns + t->transfer_ns));
  return t->ns;
}

TEST_CASE("by hand: start, hops, and the busiest resource of each step") {
  const Cluster trn1{*arch::find_instance("trn1.32xlarge"), 1, 1};
  const arch::Chip& k = *trn1.instance->chip;
  const double start = k.collective.start_ns, on_chip = 1300, hop = 1500, link = 48, mib = 1 << 20;
  const double stack = k.stack_bytes_per_ns();
  struct Row {
    const char* what;
    int64_t ranks;
    comm::Request request;
    double expected_ns;
  };
  const Row rows[] = {
      {"one rank does nothing", 1, {.bytes = 1 << 20}, 0},
      // Copies in and out of each stack and a sum of two: five passes over HBM.
      {"two ranks of a chip sum",
       2,
       {.bytes = 1 << 20, .algorithm = Algorithm::single_step},
       start + on_chip + 5 * mib / stack},
      {"and what is beyond 4 MiB passes twice more",
       2,
       {.bytes = 16 << 20, .algorithm = Algorithm::single_step},
       start + on_chip + (5 * 16 + 2 * 12) * mib / stack},
      {"two ranks of a chip gather: half a buffer read, half written, on each stack",
       2,
       {.kind = Collective::all_gather, .bytes = 1 << 20},
       start + on_chip + mib / stack},
      // Four chips in a row: chunks of 1/8, two from each chip to three others; the two to the far side share links.
      {"eight ranks gather by mesh",
       8,
       {.kind = Collective::all_gather, .bytes = 1 << 18},
       start + hop + 6 * 0.25 * mib / 8 / link + on_chip + 8 * 0.25 * mib / 8 / stack},
      {"a ring of four ranks on two chips gathers: three steps, a chunk a link each",
       4,
       {.kind = Collective::all_gather, .bytes = 1 << 20, .algorithm = Algorithm::ring},
       start + 3 * (hop + mib / 4 / link)},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    CHECK(ns_of(trn1, row.ranks, row.request) == doctest::Approx(row.expected_ns).epsilon(1e-6));
  }
}

TEST_CASE("no schedule beats what its ranks must send") {
  for (const char* name :
       {"trn1.32xlarge", "inf2.48xlarge", "trn2.48xlarge", "trn2-ultraserver", "trn3-gen1-ultraserver"}) {
    const arch::Instance& i = **arch::find_instance(name);
    const Cluster c{&i, 1, i.chip->lnc_default};
    const double egress = i.levels[0].link_bytes_per_ns * (i.levels[0].wiring == arch::Wiring::torus ? 4 : 2) +
                          (i.levels.size() > 1 ? 2 * i.levels[1].link_bytes_per_ns : 0);
    const double others = static_cast<double>(i.chips - 1) / static_cast<double>(i.chips);
    for (const int64_t bytes : {int64_t{1} << 12, int64_t{1} << 22, int64_t{1} << 30}) {
      INFO(name << " " << bytes);
      const double least = others * static_cast<double>(bytes) / egress;
      CHECK(ns_of(c, c.ranks(), {.kind = Collective::all_gather, .bytes = bytes}) >= least);
      CHECK(ns_of(c, c.ranks(), {.kind = Collective::reduce_scatter, .bytes = bytes}) >= least);
      CHECK(ns_of(c, c.ranks(), {.kind = Collective::all_reduce, .bytes = bytes}) >= least);
    }
  }
}

TEST_CASE("worse links, more ranks' traffic, more bytes: never faster") {
  const Cluster c{*arch::find_instance("trn1.32xlarge"), 1, 1};
  arch::Instance slow = *c.instance;
  slow.levels[0].link_bytes_per_ns /= 2;
  const Cluster worse{&slow, 1, 1};
  for (int kind = 0; kind < 6; ++kind)
    for (const int64_t bytes : {int64_t{1} << 14, int64_t{1} << 22, int64_t{1} << 28}) {
      comm::Request request{.kind = static_cast<Collective>(kind), .bytes = bytes};
      request.pairs = {{0, 4}, {4, 0}};
      if (kind < 3) request.algorithm = Algorithm::rdh;
      const double alone = ns_of(c, 8, request);
      CHECK(ns_of(worse, 8, request) >= alone);
      CHECK(time_collective(c, comm::groups_of(c, 8, 4), request)->ns >=
            time_collective(c, comm::groups_of(c, 8, 4)[0], request)->ns);
      request.bytes *= 2;
      CHECK(ns_of(c, 8, request) > alone);
    }
}

TEST_CASE("each algorithm is the fastest in its published band") {
  const Cluster c{*arch::find_instance("trn2.48xlarge"), 1, 2};
  const auto fastest = [&](int64_t bytes) {
    std::pair<double, Algorithm> best{1e18, Algorithm::none};
    for (const Algorithm a : {Algorithm::mesh, Algorithm::rdh, Algorithm::ring, Algorithm::kangaring})
      best = std::min(best, std::pair{ns_of(c, 64, {.bytes = bytes, .algorithm = a}), a});
    return best.second;
  };
  CHECK(fastest(100'000) == Algorithm::mesh);
  CHECK(fastest(500'000) == Algorithm::mesh);
  CHECK(fastest(2'000'000) == Algorithm::rdh);
  CHECK(fastest(30'000'000) == Algorithm::rdh);
  CHECK(fastest(100'000'000) == Algorithm::kangaring);
  CHECK(fastest(1'000'000'000) == Algorithm::kangaring);
}

TEST_CASE("an all-reduce goes in one step where that is faster, and only there") {
  for (const char* name : {"trn1.32xlarge", "inf2.48xlarge", "trn2.48xlarge", "trn3-gen1-ultraserver"}) {
    const arch::Instance& i = **arch::find_instance(name);
    const Cluster c{&i, 1, i.chip->lnc_default};
    for (const int64_t ranks : {int64_t{4}, int64_t{8}, int64_t{16}, c.ranks()})
      for (int64_t bytes = 256; bytes < 1'000'000; bytes *= 2) {
        INFO(name << " " << ranks << " ranks, " << bytes << " bytes");
        const double one = ns_of(c, ranks, {.bytes = bytes, .algorithm = Algorithm::single_step});
        const double mesh = ns_of(c, ranks, {.bytes = bytes, .algorithm = Algorithm::mesh});
        CHECK(ns_of(c, ranks, {.bytes = bytes}) <= 1.1 * std::min(one, mesh));
      }
  }
}

TEST_CASE("between instances the network counts, where there is one") {
  const Cluster two{*arch::find_instance("trn1.32xlarge"), 2, 1};
  const auto t = time_collective(two, comm::first_ranks(two, 64), {.bytes = 1 << 30});
  // A flat ring of 64: in each of 126 steps a 64th leaves either instance, at half of 800 Gbit/s.
  CHECK(t->network_bytes == doctest::Approx(2.0 * 126 / 64 * (1 << 30)));
  CHECK(t->transfer_ns >= 126.0 / 64 * (1 << 30) / 50);
  CHECK(t->transfer_ns == doctest::Approx(126.0 / 64 * (1 << 30) / 48).epsilon(0.01));  // a link inside is no faster
  // Messages follow one another by a gap, which is the shorter the smaller they are.
  const auto small = time_collective(two, comm::first_ranks(two, 64), {.bytes = 16});
  const auto wide = time_collective(two, comm::first_ranks(two, 64), {.bytes = 1 << 20});
  CHECK(small->latency_ns == doctest::Approx(126 * 3670.0));
  CHECK(wide->latency_ns == doctest::Approx(126 * 9980.0));
  const Cluster inf2{*arch::find_instance("inf2.48xlarge"), 2, 1};
  CHECK(
      time_collective(inf2, comm::first_ranks(inf2, 48), {.bytes = 64}).error().message.find("no published network") !=
      std::string::npos);
}

TEST_CASE("a collective between the cores of a program takes what its schedule does") {
  const arch::Instance& trn1 = **arch::find_instance("trn1.2xlarge");
  const Cluster c{&trn1, 1, 1};
  struct Row {
    const char* attrs;
    int64_t in, out;  // KiB
    comm::Request request;
  };
  const Row rows[] = {
      {"kind=all_reduce", 64, 64, {.bytes = 64 << 10}},
      {"kind=all_reduce", 1024, 1024, {.bytes = 1 << 20}},
      {"kind=all_gather", 512, 1024, {.kind = Collective::all_gather, .bytes = 1 << 20}},
      {"kind=reduce_scatter", 1024, 512, {.kind = Collective::reduce_scatter, .bytes = 1 << 20}},
      {"kind=permute pairs=[0,1,1,0]",
       512,
       512,
       {.kind = Collective::permute, .bytes = 1 << 19, .pairs = {{0, 1}, {1, 0}}}},
  };
  for (const Row& row : rows) {
    INFO(row.attrs << " " << row.in);
    std::string text = cat("program two\ncores 2\ntensor a hbm f32[", row.in * 256, "] input\ntensor b hbm f32[",
                           row.out * 256, "] output\n");
    const auto with = [&](std::string_view insn) {
      const auto program = arch::assemble(cat(text, "stream sync\n  ", insn, "\nstream 1.sync\n  ", insn, "\n"), "two");
      REQUIRE_MESSAGE(program.has_value(), (program ? "" : program.error().text()));
      return to_ns(time_program(*program, *trn1.chip)->end);
    };
    const double alone = with("semaphore_increment then s0+=1");
    const double took = with(cat("collective dst=b src=a ", row.attrs)) - alone;
    CHECK(took == doctest::Approx(ns_of(c, 2, row.request)).epsilon(0.02));
  }
}

TEST_CASE("each kind of resource is busy no longer than all bytes take, and one of them as long") {
  const Cluster trn1{*arch::find_instance("trn1.32xlarge"), 2, 1};
  for (const int64_t ranks : {2, 8, 32, 64}) {
    const auto t = time_collective(trn1, comm::first_ranks(trn1, ranks), {.bytes = 8 << 20});
    REQUIRE(t.has_value());
    double most = 0, sum = 0;
    for (const double ns : t->busy_ns) most = std::max(most, ns), sum += ns;
    CHECK(most <= t->transfer_ns * (1 + 1e-9));
    CHECK(sum >= t->transfer_ns * (1 - 1e-9));
  }
}
