// Reading a profile, and the tree of a track; see file.h. What is walked later is checked here once: the small tables
// in full, events and nodes by their extent, and by index where they are used (window.cpp, Walk).
#include "run/profile/file.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/file.h"
#include "base/text.h"

namespace trine::run {

namespace {

constexpr size_t kProgramsMax = 1 << 20, kSectionsMax = 16 << 20;

Failure broken(const std::string& where, std::string what) {
  return fail(Code::invalid, cat("not a whole profile: ", what), where);
}

template <class T>
Result<std::span<const T>> rows(const ProfileEntry& p, std::span<const std::byte> bytes, const std::string& where) {
  if (p.offset % 8 || p.bytes % sizeof(T))
    return broken(where, cat("section ", p.section, " of ", p.bytes, " bytes at ", p.offset, ", expected rows of ",
                             sizeof(T), " at a multiple of 8"));
  return std::span(reinterpret_cast<const T*>(bytes.data() + p.offset), p.bytes / sizeof(T));
}

uint32_t largest(const std::vector<std::pair<uint32_t, int64_t>>& shares) {
  uint32_t best = 0;
  int64_t most = -1;
  for (const auto& [name, busy] : shares)
    if (busy > most) best = name, most = busy;
  return best;
}

}  // namespace

size_t nodes_of(uint64_t events, uint32_t& levels) {
  size_t all = 0;
  levels = 0;
  for (uint64_t n = events; n > kFan; ++levels) all += n = (n + kFan - 1) / kFan;
  return all;
}

std::vector<ProfileNode> tree_of(std::span<const ProfileEvent> events, std::span<const ProfileInsn> insns,
                                 uint32_t& levels) {
  std::vector<ProfileNode> out;
  out.reserve(nodes_of(events.size(), levels));
  std::vector<std::pair<uint32_t, int64_t>> shares;
  const auto share = [&](uint32_t name, int64_t busy) {
    for (auto& [n, b] : shares)
      if (n == name) return void(b += busy);
    shares.emplace_back(name, busy);
  };
  size_t below = 0;
  for (uint32_t level = 0; level < levels; ++level) {
    const size_t count = level ? out.size() - below : events.size(), first = below;
    below = out.size();
    for (size_t i = 0; i < count; i += kFan) {
      ProfileNode node{INT64_MAX, INT64_MIN, 0, 0, 0};
      shares.clear();
      for (size_t k = i; k < std::min(i + kFan, count); ++k) {
        const ProfileNode one = level ? out[first + k]
                                      : ProfileNode{events[k].begin, events[k].end, events[k].end - events[k].begin, 1,
                                                    insns[events[k].insn].name};
        node.begin = std::min(node.begin, one.begin), node.end = std::max(node.end, one.end);
        node.busy += one.busy, node.count += one.count;
        share(one.name, one.busy);
      }
      node.name = largest(shares);
      out.push_back(node);
    }
  }
  return out;
}

Result<std::shared_ptr<const ProfileFile>> ProfileFile::open(const std::string& path) {
  const OpenFile file = TRY(OpenFile::open(path));
  std::shared_ptr<const void> owner;
  const auto bytes = TRY(map_file(file, owner));
  return read(bytes, path, owner);
}

Result<std::shared_ptr<const ProfileFile>> ProfileFile::read(std::span<const std::byte> bytes, const std::string& where,
                                                             std::shared_ptr<const void> owner) {
  ProfileHeader header;
  CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % 8 == 0, "a profile lies at a multiple of 8");
  if (bytes.size() < sizeof header || std::memcmp(bytes.data(), kProfileMagic.data(), kProfileMagic.size()) != 0)
    return fail(Code::invalid,
                "found no profile of Trine, expected a file that `trine profile capture` wrote (the bytes of Neuron's "
                "own .ntff are not published)",
                where);
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != kProfileVersion)
    return fail(Code::unsupported, cat("found a profile of version ", header.version, ", expected ", kProfileVersion),
                where);
  if (header.bytes != bytes.size())
    return broken(where, cat("found ", bytes.size(), " bytes, its header says ", header.bytes));
  const uint64_t table = uint64_t{header.sections} * sizeof(ProfileEntry);
  if (header.sections > kSectionsMax || header.table % 8 || header.table > bytes.size() ||
      table > bytes.size() - header.table)
    return broken(where, cat(header.sections, " sections at ", header.table, " of ", bytes.size(), " bytes"));
  std::shared_ptr<ProfileFile> out(new ProfileFile);
  out->owner_ = std::move(owner);
  for (uint32_t i = 0; i < header.sections; ++i) {
    ProfileEntry p;
    std::memcpy(&p, bytes.data() + header.table + i * sizeof p, sizeof p);
    if (p.offset > bytes.size() || p.bytes > bytes.size() - p.offset)
      return broken(where, cat("section ", i, " lies at ", p.offset, " of ", bytes.size(), " bytes"));
    TRY(out->place(p, bytes, where));
  }
  TRY(out->check(where));
  return std::shared_ptr<const ProfileFile>(std::move(out));
}

Result<void> ProfileFile::place(const ProfileEntry& p, std::span<const std::byte> bytes, const std::string& where) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + p.offset, p.bytes);
  if (p.program != kNone && p.program >= kProgramsMax) return broken(where, cat("program ", p.program));
  if (p.program != kNone && p.program >= programs_.size()) programs_.resize(p.program + 1);
  ProgramProfile none, &program = p.program == kNone ? none : programs_[p.program];
  switch (ProfileSection(p.section)) {
    case ProfileSection::info:
      info_ = text;
      break;
    case ProfileSection::names: {  // count, count + 1 places, text
      const auto numbers = std::span(reinterpret_cast<const uint64_t*>(text.data()), text.size() / 8);
      if (p.offset % 8 || numbers.empty() || numbers[0] >= numbers.size() - 1)
        return broken(where, cat("names of ", p.bytes, " bytes"));
      name_ends_ = numbers.subspan(1, numbers[0] + 1);
      name_bytes_ = text.substr((numbers[0] + 2) * 8);
      break;
    }
    case ProfileSection::tracks:
      program.tracks = TRY(rows<ProfileTrack>(p, bytes, where));
      break;
    case ProfileSection::events:
      program.events = TRY(rows<ProfileEvent>(p, bytes, where));
      break;
    case ProfileSection::nodes:
      program.nodes = TRY(rows<ProfileNode>(p, bytes, where));
      break;
    case ProfileSection::insns:
      program.insns = TRY(rows<ProfileInsn>(p, bytes, where));
      break;
    case ProfileSection::memory:
      program.memory = TRY(rows<ProfileMemory>(p, bytes, where));
      break;
    case ProfileSection::image:
      program.image = text;
      break;
    case ProfileSection::runs:
      runs_ = TRY(rows<ProfileRun>(p, bytes, where));
      break;
    case ProfileSection::semaphores:
      program.semaphores = TRY(rows<ProfileSemaphore>(p, bytes, where));
      break;
    case ProfileSection::transfers:
      transfers_ = TRY(rows<ProfileTransfer>(p, bytes, where));
      break;
  }  // a later version's sections are passed over
  return {};
}

Result<void> ProfileFile::check(const std::string& where) const {
  for (size_t i = 0; i < name_ends_.size(); ++i)
    if (name_ends_[i] > name_bytes_.size() || (i && name_ends_[i] < name_ends_[i - 1]))
      return broken(where, cat("name ", i, " ends at ", name_ends_[i], " of ", name_bytes_.size(), " bytes"));
  for (size_t n = 0; n < programs_.size(); ++n) {
    const ProgramProfile& p = programs_[n];
    if (p.events.size() >= kNone || p.insns.size() >= kNone) return broken(where, cat("program ", n, " is too long"));
    for (const ProfileTrack& t : p.tracks) {
      uint32_t levels = 0;
      const size_t nodes = nodes_of(t.count, levels);
      if (t.event > p.events.size() || t.count > p.events.size() - t.event || levels != t.levels ||
          t.node > p.nodes.size() || nodes > p.nodes.size() - t.node)
        return broken(
            where, cat("a track of program ", n, " has ", t.count, " events from ", t.event, " of ", p.events.size()));
    }
  }
  const ProfileRun* last = nullptr;
  for (const ProfileRun& r : runs_) {
    if (r.end < r.begin || r.begin < 0 || r.end > kProfileTimeMax ||
        (r.program != kNone && r.program >= programs_.size()))
      return broken(where,
                    cat("run ", &r - runs_.data(), " is of program ", r.program, " from ", r.begin, " to ", r.end));
    if (last && (std::tie(r.rank, r.lane, r.begin) < std::tie(last->rank, last->lane, last->begin)))
      return broken(where, cat("run ", &r - runs_.data(), " begins before the one before it"));
    if (r.rank > 1 << 20 || r.lane > 2 || r.devices > 4096 || r.device > 1 << 20)
      return broken(where, cat("run ", &r - runs_.data(), " is of rank ", r.rank, ", ", r.devices, " devices"));
    last = &r;
  }
  return {};
}

std::string_view ProfileFile::name(uint32_t n) const {
  if (n >= name_count()) return {};
  return name_bytes_.substr(name_ends_[n], name_ends_[n + 1] - name_ends_[n]);
}

}  // namespace trine::run
