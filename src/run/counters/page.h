// The page of counters that a process publishes: a header, a block per core, then rows of programs. Version 1.
// The file is <folder>/<pid>.<n>; the process that writes it holds flock(LOCK_EX) on it as long as it lives, so a page
// whose lock can be taken is dead. All numbers are 8 bytes, native order, only ever stored or added atomically; text is
// UTF-8, ended by 0, written before `ready`. Readers check every size against the file's. A field is never moved or
// reused: new ones take reserved room and kPageVersion stays; a page of another version is not read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "run/counters/status.h"

namespace trine::run {

inline constexpr uint64_t kPageMagic = 0x31524e43454e5254;  // "TRNECNR1"
inline constexpr int64_t kPageVersion = 1;
inline constexpr size_t kBuckets = 256;        // of latency: 8 to an octave from 256 ns, the last takes the rest
inline constexpr int64_t kProgramsMax = 4096;  // later programs share the last row

using Count = std::atomic<int64_t>;
static_assert(Count::is_always_lock_free && sizeof(Count) == 8);

enum class PageMemory : uint8_t { input, output, temporary, constants, count };  // the first three: MemoryClass
enum class PageEcc : uint8_t { mem_corrected, mem_uncorrected, sram_corrected, sram_uncorrected, count };
enum class PageCollective : uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, permute, broadcast, count };

// One logical core.
struct alignas(64) CoreCounters {
  Count id = 0, chip = 0, on_chip = 0;  // on_chip: its number there
  Count touched = 0;                    // something was put there or ran
  Count executions = 0, failures = 0, busy_ns = 0;
  Count host_to_device_bytes = 0, device_to_host_bytes = 0, device_to_device_bytes = 0;
  Count memory_limit = 0, memory_peak = 0;
  std::array<Count, 8> memory = {};            // by PageMemory, bytes in use
  std::array<Count, 32> statuses = {};         // by Status
  std::array<Count, 8> collectives = {};       // by PageCollective
  std::array<Count, 8> collective_bytes = {};  // likewise
  std::array<Count, 8> collective_ns = {};     // of the host, waiting included
  std::array<Count, 8> ecc = {};               // by PageEcc
  Count slowed_permille = 0;                   // an injected fault: time beside what it takes, in thousandths
  Count lost = 0;                              // an injected fault took the core away
  std::array<Count, 45> reserved = {};
  std::array<std::atomic<uint32_t>, kBuckets> latency = {};  // host's, of runs
};

// One program; runs and host time of each core follow.
struct alignas(64) ProgramCounters {
  std::array<char, 96> name = {};
  std::array<char, 32> key = {};  // of the file <folder>/<pid>.<n>.programs/<key>; valid once exported is 1
  Count ready = 0;                // the row is in use
  Count exported = 0;             // 0 not so far, 1 there, 2 gone or too large
  Count devices = 0;              // of one run
  Count constant_bytes = 0, arena_bytes = 0;
  Count mean_ns = 0;  // of the host, lately: decides how often time is taken
  std::array<Count, 2> reserved = {};

  struct PerCore {
    Count runs = 0, host_ns = 0;
  };
  PerCore* per_core() { return reinterpret_cast<PerCore*>(this + 1); }
  const PerCore* per_core() const { return reinterpret_cast<const PerCore*>(this + 1); }
};

struct PageHeader {
  uint64_t magic = 0;
  int64_t version = 0, bytes = 0;
  int64_t core_offset = 0, core_bytes = 0, core_count = 0;
  int64_t program_offset = 0, program_bytes = 0, program_count = 0;  // rows there is room for
  int64_t pid = 0, started_ns = 0, lnc = 1;                          // started: of the wall clock
  Count ready = 0;
  Count watched_until_ns = 0;  // written by watchers, of the wall clock
  Count programs_used = 0;
  std::array<int64_t, 17> reserved = {};
  std::array<char, 64> instance = {};
  std::array<char, 32> library = {}, runtime_version = {};
  std::array<char, 256> tag = {};
  std::array<char, 512> command = {};
};
static_assert(sizeof(PageHeader) % 64 == 0 && sizeof(PageHeader) <= 4096);

inline constexpr size_t bucket_of(int64_t ns) {
  if (ns < 256) return 0;
  const int octave = 63 - __builtin_clzll(static_cast<uint64_t>(ns));  // at least 8
  const size_t at = static_cast<size_t>(octave - 8) * 8 + static_cast<size_t>((ns >> (octave - 3)) & 7);
  return at < kBuckets ? at : kBuckets - 1;
}
inline constexpr double bucket_ns(size_t bucket) {  // its middle
  const double low = static_cast<double>(int64_t{256} << (bucket / 8));
  return low * (1 + (static_cast<double>(bucket % 8) + 0.5) / 8);
}

}  // namespace trine::run
