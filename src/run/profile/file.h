// ProfileFile: the .ntff file, Trine's own format under the name that Neuron's tools use. docs/profile.md is its
// description. A program's events are kept once, however often it ran, and each track has a tree of summaries, so that
// a window of any width touches about as many rows as it shows. Not a summary (python/trine/profile makes those).
// Invariant: read() checks every index, so that what it gives can be walked without another check.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trine::run {

inline constexpr std::string_view kProfileMagic = "TRN-NTFF";
inline constexpr uint32_t kProfileVersion = 1;
inline constexpr uint32_t kNone = 0xffffffff;
inline constexpr int64_t kProfileTimeMax = int64_t{1} << 60;  // ps: thirteen days
inline constexpr size_t kFan = 32;                            // events or nodes under one node of a track's tree

enum class ProfileSection : uint32_t {
  info = 1,
  names,
  tracks,
  events,
  nodes,
  insns,
  memory,
  image,
  runs,
  semaphores,
  transfers,
};

// Little-endian, as they lie in the file; all times in ps, of events from the start of their program.
struct ProfileHeader {
  char magic[8];
  uint32_t version;
  uint32_t sections;
  uint64_t table;  // where the rows of ProfileEntry begin
  uint64_t bytes;  // of the whole file
};
struct ProfileEntry {
  uint32_t section;
  uint32_t program;  // its number, or kNone
  uint64_t offset, bytes;
};
struct ProfileTrack {  // of one program
  uint16_t core;
  uint16_t part;   // sim::Part
  uint16_t queue;  // of DMA
  uint16_t lane;   // transfers of one queue that overlap lie on several
  uint32_t levels;
  uint32_t name;          // with the largest share
  uint64_t event, count;  // first, in the program's events
  uint64_t node;          // first, in the program's nodes: level by level, the finest first
  int64_t busy;
};
struct ProfileEvent {
  int64_t begin, end;
  uint32_t insn;       // in the program's instructions
  uint32_t cause;      // the event that let it begin, or kNone
  float waited_ns;     // since its unit was free
  uint8_t waited_for;  // sim::Part
  uint8_t doing;       // sim::Doing
  uint16_t reserved;
};
struct ProfileNode {
  int64_t begin, end, busy;
  uint32_t count, name;
};
struct ProfileInsn {
  uint32_t name, text, at;  // in the names; at: file:line
  uint16_t core;
  uint16_t part;
  int64_t count, busy, waited, flops;
  int64_t hbm_read, hbm_write, sbuf_read, sbuf_write, psum_read, psum_write, spill_save, spill_reload;
};
struct ProfileMemory {
  int64_t at, bytes;
  uint32_t kind;  // arch::Space
  uint32_t label;
};
struct ProfileSemaphore {  // from here on it holds this value; by core, semaphore and time
  int64_t at;
  int32_t value;
  uint32_t event;  // that changed it, in the program's events
  uint16_t core, semaphore;
  uint32_t reserved;
};
// What a rank did one after the other on one of its lanes: programs, collectives, the host.
struct ProfileRun {
  int64_t begin, end;              // from the start of the profile
  int64_t host_begin_ns, host_ns;  // on this machine: of the wall clock, and how long; 0: not known
  uint32_t program, name;          // program: kNone for what has no instructions
  uint32_t rank, lane;             // lane: 0 programs, 1 collectives, 2 host
  uint32_t device, devices;        // first, and how many run it at once
  uint32_t step, reserved;
};
// Bytes between a rank's host and a device of it; on the chip's clock an instant, since programs do not wait for it
// there.
struct ProfileTransfer {
  int64_t at;                      // from the start of the profile
  int64_t host_begin_ns, host_ns;  // as ProfileRun's
  int64_t bytes;
  uint32_t rank, device;
  uint32_t direction;  // 0: to the device, 1: from it
  uint32_t step;
};
static_assert(sizeof(ProfileTrack) == 48 && sizeof(ProfileEvent) == 32 && sizeof(ProfileNode) == 32 &&
              sizeof(ProfileInsn) == 112 && sizeof(ProfileMemory) == 24 && sizeof(ProfileRun) == 64 &&
              sizeof(ProfileEntry) == 24 && sizeof(ProfileHeader) == 32 && sizeof(ProfileSemaphore) == 24 &&
              sizeof(ProfileTransfer) == 48);

// One program as the file holds it.
struct ProgramProfile {
  std::span<const ProfileTrack> tracks = {};
  std::span<const ProfileEvent> events = {};
  std::span<const ProfileNode> nodes = {};
  std::span<const ProfileInsn> insns = {};
  std::span<const ProfileMemory> memory = {};
  std::span<const ProfileSemaphore> semaphores = {};
  std::string_view image = {};  // the program itself (arch/program/container.h), or empty
};

class ProfileFile {
 public:
  static Result<std::shared_ptr<const ProfileFile>> open(const std::string& path);
  // `owner` keeps the bytes.
  static Result<std::shared_ptr<const ProfileFile>> read(std::span<const std::byte> bytes, const std::string& where,
                                                         std::shared_ptr<const void> owner = {});

  std::string_view info() const { return info_; }  // JSON
  size_t name_count() const { return name_ends_.empty() ? 0 : name_ends_.size() - 1; }
  std::string_view name(uint32_t n) const;  // empty past the last
  std::span<const ProfileRun> runs() const { return runs_; }
  std::span<const ProfileTransfer> transfers() const { return transfers_; }
  const std::vector<ProgramProfile>& programs() const { return programs_; }

 private:
  ProfileFile() = default;
  Result<void> place(const ProfileEntry& p, std::span<const std::byte> bytes, const std::string& where);
  Result<void> check(const std::string& where) const;

  std::shared_ptr<const void> owner_;
  std::string_view info_, name_bytes_;
  std::span<const uint64_t> name_ends_;
  std::span<const ProfileRun> runs_;
  std::span<const ProfileTransfer> transfers_;
  std::vector<ProgramProfile> programs_;
};

// Nodes above one track's events, level by level.
std::vector<ProfileNode> tree_of(std::span<const ProfileEvent> events, std::span<const ProfileInsn> insns,
                                 uint32_t& levels);
size_t nodes_of(uint64_t events, uint32_t& levels);  // how many tree_of makes

}  // namespace trine::run
