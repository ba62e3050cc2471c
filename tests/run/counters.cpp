// Pages of counters: what is written is read, dead ones go, a forked child counts for itself; faults as rows.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/text.h"
#include "run/counters/publish.h"
#include "run/counters/read.h"
#include "run/counters/sample.h"
#include "run/faults/fault.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::run;

namespace {

struct Folder {
  std::string path;
  Folder() {
    char name[] = "/tmp/trine-counters-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

PageOptions options_in(const Folder& folder, size_t cores) {
  PageOptions out{.folder = folder.path, .instance = "trn1.32xlarge", .library = "test", .tag = "tag"};
  for (size_t i = 0; i < cores; ++i) out.cores.push_back({int64_t(i), int64_t(i / 2), int64_t(i % 2), 1 << 30});
  return out;
}

}  // namespace

TEST_CASE("a page is read as it was written") {
  const Folder folder;
  const auto page = Page::make(options_in(folder, 4));
  REQUIRE(page);
  const CountedProgram counted;
  ProgramCounters* const row =
      counted.in(page->get(), [] { return CountedInfo{.name = "step", .constant_bytes = 100}; });
  (*page)->count_run(*row, 2, 1000, 1, Status::success);
  (*page)->count_run(*row, 2, 3000, 1, Status::timeout);
  const auto found = PageReader(folder.path).read(0);
  REQUIRE(found.size() == 1);
  CHECK(found[0].pid == ::getpid());
  CHECK(found[0].tag == "tag");
  REQUIRE(found[0].cores.size() == 1);  // the one that was used
  const auto& core = found[0].cores[0];
  CHECK(core.id == 2);
  CHECK(core.executions == 2);
  CHECK(core.failures == 1);
  CHECK(core.busy_ns == 4000);
  CHECK(core.statuses[size_t(Status::timeout)] == 1);
  CHECK(core.memory[size_t(PageMemory::constants)] == 100);
  REQUIRE(found[0].programs.size() == 1);
  CHECK(found[0].programs[0].name == "step");
  CHECK(found[0].programs[0].per_core[0].runs == 2);
}

TEST_CASE("the page of a killed process is removed by whoever reads") {
  const Folder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto page = Page::make(options_in(folder, 1));
    (*page)->core(0).touched = 1;
    ::raise(SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  REQUIRE(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
  CHECK(PageReader(folder.path).read(0).empty());
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 0);
}

TEST_CASE("a forked child's numbers are its own, and its parent's page stays") {
  const Folder folder;
  auto page = Page::make(options_in(folder, 1));
  (*page)->core(0).touched = 1;
  const pid_t child = ::fork();
  if (child == 0) {
    (*page)->core(0).executions += 5;
    ::_exit((*page)->core(0).executions == 5 ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  const auto found = PageReader(folder.path).read(0);
  REQUIRE(found.size() == 1);
  CHECK(found[0].cores[0].executions == 0);
  page = fail(Code::internal, "over");
  CHECK(PageReader(folder.path).read(0).empty());
}

TEST_CASE("buckets of latency are an eighth of an octave wide") {
  for (const int64_t ns : {300, 1000, 12345, 1000000, 987654321}) {
    const double middle = bucket_ns(bucket_of(ns));
    CHECK(std::abs(middle / double(ns) - 1) < 0.0725);
  }
  CHECK(bucket_of(0) == 0);
  CHECK(bucket_of(INT64_MAX) == kBuckets - 1);
}

TEST_CASE("utilisation is on the chip's clock: programs take the chip's time, gaps the host's") {
  const Folder folder;
  ProcessCounters before{.file = "1.0", .pid = 1, .instance = "trn1.2xlarge"}, now;
  before.cores.push_back({});
  before.programs.push_back({.name = "p", .key = "aa", .per_core = {{10, 1000}}});
  now = before;
  now.cores[0].busy_ns = 400'000'000;  // of the second
  now.programs[0].per_core[0] = {20, 400'001'000};
  ProgramTimes times(folder.path, "test");
  CHECK(awaits_times(make_sample({before}, {now}, 1.0, 2'000'000'000, times)));
  CHECK(!awaits_times(make_sample({now}, {now}, 1.0, 2'000'000'000, times)));  // it did not run in the period
  REQUIRE(times.store("aa", "trn1.2xlarge", {.ns = 10e6, .busy_ns = {5e6, 0, 0, 0, 0, 2e6}, .flops = 1e9}));
  const Sample sample = make_sample({before}, {now}, 1.0, 2'000'000'000, times);
  REQUIRE(sample.processes.size() == 1);
  CHECK(!awaits_times(sample));
  const Spent& spent = sample.processes[0].cores[0].period;
  CHECK(spent.chip_ns == doctest::Approx(100e6));  // ten runs
  CHECK(spent.gap_ns == doctest::Approx(600e6));   // what the host did not compute
  CHECK(spent.utilisation() == doctest::Approx(1.0 / 7));
  CHECK(spent.share(0) == doctest::Approx(0.5 / 7));
  CHECK(spent.flops_per_s() == doctest::Approx(10e9 / 0.7));
  CHECK((*sample.processes[0].device_latency)[3] == doctest::Approx(0.01));
}

TEST_CASE("faults: what is read, and what is refused") {
  const auto faults =
      parse_faults("flip:at=sbuf@12/0x40,bit=7,instructions=1000; lost:core=1,after=100;slow:dma=3,by=8");
  REQUIRE(faults);
  REQUIRE(faults->size() == 3);
  CHECK((*faults)[0].space == arch::Space::sbuf);
  CHECK((*faults)[0].partition == 12);
  CHECK((*faults)[0].address == 64);
  CHECK((*faults)[1].after == 100);
  CHECK(time_faults(*faults) == "slow:dma=3,by=8");
  for (const char* wrong :
       {"melt", "lost:after=-1", "flip:at=dram@0", "slow:by=0.5", "flip:at=sbuf@0x40", "ecc", "lost:by=2"})
    CHECK(!parse_faults(wrong));
}
