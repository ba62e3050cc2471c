// Reading and writing Program v1; see container.h. Nothing is believed: counts are held against the bytes that are left
// before memory is taken, checksums before fields, and the structure before the Program is handed out.
#include "arch/program/container.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <set>

#include "arch/asm/asm.h"
#include "arch/program/container_io.h"
#include "arch/program/verify.h"
#include "arch/row.h"
#include "base/file.h"
#include "base/text.h"

namespace trine::arch {

namespace {

constexpr size_t kHeaderBytes = 32, kEntryBytes = 32, kAlign = 64, kSectionsMax = 1024;
static_assert(std::endian::native == std::endian::little, "integers are copied as they lie");

// Every step is a bijection of the state, so a change of one word always changes the sum.
uint64_t checksum(std::span<const std::byte> bytes) {
  uint64_t h = 0x9e3779b97f4a7c15 ^ bytes.size();
  const auto mix = [&](uint64_t word) { h = std::rotl(h ^ word, 29) * 0xbf58476d1ce4e5b9; };
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    mix(word);
  }
  uint64_t last = 0;
  if (i < bytes.size()) std::memcpy(&last, bytes.data() + i, bytes.size() - i);
  mix(last);
  return h ^ (h >> 32);
}

// What a file's numbers mean: should an instruction, a set or a dtype change in a later build, the file says so.
struct Signature {
  uint16_t opcode = 0;
  std::string text;
};

template <class IO>
void fields(IO& io, Same<Signature> auto& s) {
  io(s.opcode, s.text);
}

std::string signature_of(const RowInfo& info) {
  std::string text = cat(info.row->name, " ", info.row->operands, " ", info.row->attrs);
  for (const AttrSlot& a : info.attrs) {
    if (a.type != AttrType::enumeration) continue;
    append_text(text, cat(" ", a.set->name, "="));
    for (auto member : a.set->members) append_text(text, cat(member, ","));
  }
  return text;
}

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (const DtypeRow& row : kChipDtypes) names.emplace_back(row.name);
  return names;
}

std::vector<Signature> dialect_of(const Program& p) {
  std::set<uint16_t> used;
  for (const Stream& s : p.streams)
    for (const Insn& insn : s.insns) used.insert(insn.opcode);
  std::vector<Signature> all;
  for (uint16_t opcode : used)
    if (const RowInfo* info = row_by_opcode(opcode)) all.push_back({opcode, signature_of(*info)});
  return all;
}

Result<void> check_dialect(const std::vector<std::string>& dtypes, const std::vector<Signature>& signatures,
                           std::string_view name) {
  const auto ours = dtype_names();
  if (dtypes.size() > ours.size() || !std::equal(dtypes.begin(), dtypes.end(), ours.begin()))
    return fail(Code::unsupported,
                "the file numbers the dtypes differently; assemble the program again with this build",
                std::string(name));
  for (const Signature& s : signatures) {
    const RowInfo* info = row_by_opcode(s.opcode);
    if (info && signature_of(*info) == s.text) continue;
    return fail(Code::unsupported,
                cat("the file was written for `", s.text, "`; this build has ",
                    info ? cat("`", signature_of(*info), "`") : cat("no opcode ", s.opcode),
                    "; assemble the program again with this build"),
                std::string(name));
  }
  return {};
}

// A section's fields, in order; constants are raw and not here.
template <class IO, class P, class D, class S>
void section_fields(SectionKind kind, IO& io, P& p, D& dtypes, S& signatures) {
  switch (kind) {
    case SectionKind::origin:
      return io(p.name, p.chip, p.producer, p.cores);
    case SectionKind::dialect:
      return io(dtypes, signatures);
    case SectionKind::memory_map:
      return io(p.tensors);
    case SectionKind::strings:
      return io(p.strings);
    case SectionKind::lines:
      return io(p.lines);
    case SectionKind::operands:
      return io(p.operands, p.patterns, p.dynamics, p.attrs, p.lists);
    case SectionKind::semaphores:
      return io(p.waits, p.updates, p.steps);
    case SectionKind::streams:
      return io(p.streams);
    case SectionKind::constants:
    case SectionKind::host_plan:
    case SectionKind::loading:
    case SectionKind::graph:
    case SectionKind::weights:
    case SectionKind::kernel_insns:
    case SectionKind::parts:
      return;
  }
}
constexpr uint32_t kLastWritten = static_cast<uint32_t>(SectionKind::constants);

struct Header {
  std::array<char, 8> magic{};
  uint32_t version = 0, sections = 0;
  uint64_t size = 0, sum = 0;  // sum: of the header with 0 here, and of the table
};
struct Entry {
  SectionKind kind{};
  uint32_t reserved = 0;
  uint64_t offset = 0, size = 0, sum = 0;
};
template <class IO>
void fields(IO& io, Same<Header> auto& h) {
  io(h.magic, h.version, h.sections, h.size, h.sum);
}
template <class IO>
void fields(IO& io, Same<Entry> auto& e) {
  io(e.kind, e.reserved, e.offset, e.size, e.sum);
}

template <class T>
void put(std::span<std::byte> at, const T& record) {
  Writer w;
  w(record);
  std::copy(w.out.begin(), w.out.end(), at.begin());
}

size_t aligned(size_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

uint64_t head_sum(std::span<const std::byte> file, size_t sections) {
  std::vector<std::byte> head(file.begin(),
                              file.begin() + static_cast<ptrdiff_t>(kHeaderBytes + sections * kEntryBytes));
  std::fill_n(head.begin() + kHeaderBytes - 8, 8, std::byte{0});  // where the sum itself goes
  return checksum(head);
}

class Parser {
 public:
  Parser(std::span<const std::byte> file, std::string_view name, std::shared_ptr<const void> owner,
         std::vector<Attachment>* attached)
      : file_(file), name_(name), owner_(std::move(owner)), attached_(attached) {}

  Result<Program> run() {
    TRY(read_header());
    TRY(read_entries());
    for (const Entry& e : entries_) TRY(read_section(e));
    for (uint32_t k = 1; k <= kLastWritten; ++k)
      if (!seen_.contains(k)) return wrong(cat("section ", k, " is missing"));
    TRY(check_dialect(dtypes_, signatures_, name_));
    const auto findings = check_structure(p_);
    if (!findings.empty()) return wrong(findings[0].error.text());
    return std::move(p_);
  }

 private:
  Error wrong(std::string what) const { return fail(Code::invalid, cat("not a sound program file: ", what), name_); }

  Result<void> read_header();
  Result<void> read_entries();
  Result<void> read_section(const Entry& e);

  std::span<const std::byte> file_;
  std::string name_;
  std::shared_ptr<const void> owner_;
  std::vector<Attachment>* attached_;
  Header header_;
  std::vector<Entry> entries_;
  std::set<uint32_t> seen_;
  std::vector<std::string> dtypes_;
  std::vector<Signature> signatures_;
  Program p_;
};

Result<void> Parser::read_header() {
  if (file_.size() < kHeaderBytes)
    return wrong(cat("it has ", file_.size(), " bytes, a header alone has ", kHeaderBytes));
  Reader(file_.first(kHeaderBytes))(header_);
  if (std::string_view(header_.magic.data(), 8) != kProgramMagic) return wrong("it does not begin with TRINEPRG");
  if (header_.version > kProgramVersion)
    return fail(Code::unsupported,
                cat("program version ", header_.version, "; this build reads up to ", kProgramVersion), name_);
  if (header_.version == 0) return wrong("version 0");
  if (header_.size != file_.size()) return wrong(cat("it says ", header_.size, " bytes and has ", file_.size()));
  if (header_.sections > kSectionsMax || kHeaderBytes + header_.sections * kEntryBytes > file_.size())
    return wrong(cat(header_.sections, " sections do not fit in it"));
  if (head_sum(file_, header_.sections) != header_.sum) return wrong("the header's checksum does not match");
  return {};
}

// Sections lie in order, each on the next aligned byte, with zeros between and nothing behind.
Result<void> Parser::read_entries() {
  size_t end = kHeaderBytes + header_.sections * kEntryBytes;
  Reader reader(file_.subspan(kHeaderBytes, header_.sections * kEntryBytes));
  for (uint32_t i = 0; i < header_.sections; ++i) {
    Entry e;
    reader(e);
    const size_t begin = aligned(end);
    if (e.offset != begin || e.offset > file_.size() || e.size > file_.size() - e.offset)
      return wrong(
          cat("section ", i, " covers bytes ", e.offset, " to ", e.offset + e.size, ", expected it at ", begin));
    const auto gap = file_.subspan(end, begin - end);
    if (std::any_of(gap.begin(), gap.end(), [](std::byte b) { return b != std::byte{0}; }))
      return wrong(cat("the bytes before section ", i, " are not zero"));
    end = begin + e.size;
    entries_.push_back(e);
  }
  if (end != file_.size()) return wrong("there are bytes after the last section");
  return {};
}

Result<void> Parser::read_section(const Entry& e) {
  const auto bytes = file_.subspan(e.offset, e.size);
  if (checksum(bytes) != e.sum)
    return wrong(cat("section ", static_cast<uint32_t>(e.kind), " is damaged: its checksum does not match"));
  if (!seen_.insert(static_cast<uint32_t>(e.kind)).second)
    return wrong(cat("section ", static_cast<uint32_t>(e.kind), " is there twice"));
  if (e.kind == SectionKind::constants) {
    if (owner_)
      p_.data = ConstantBytes(owner_, bytes);
    else
      p_.data.append(bytes, 1);
    return {};
  }
  const auto kind = static_cast<uint32_t>(e.kind);
  if (kind > kLastWritten && attached_) attached_->push_back({e.kind, bytes});
  if (kind == 0 || kind > kLastWritten) return {};  // not the program's own
  Reader reader(bytes);
  section_fields(e.kind, reader, p_, dtypes_, signatures_);
  if (!reader.ok() || !reader.at_end()) return wrong(cat("section ", kind, " has the wrong length for its contents"));
  return {};
}

}  // namespace

bool seal(std::span<std::byte> file) {
  Header header;
  if (file.size() < kHeaderBytes) return false;
  Reader(file.first(kHeaderBytes))(header);
  if (header.sections > kSectionsMax || kHeaderBytes + header.sections * kEntryBytes > file.size()) return false;
  for (uint32_t i = 0; i < header.sections; ++i) {
    const auto at = file.subspan(kHeaderBytes + i * kEntryBytes, kEntryBytes);
    Entry e;
    Reader{at}(e);
    if (e.offset > file.size() || e.size > file.size() - e.offset) return false;
    e.sum = checksum(file.subspan(e.offset, e.size));
    put(at, e);
  }
  header.size = file.size();
  put(file, header);
  header.sum = head_sum(file, header.sections);
  put(file, header);
  return true;
}

std::vector<std::byte> program_bytes(const Program& p, std::span<const Attachment> attached) {
  const std::vector<std::string> dtypes = dtype_names();
  const std::vector<Signature> signatures = dialect_of(p);
  const auto sections = uint32_t(kLastWritten + attached.size());
  std::vector<std::byte> file(kHeaderBytes + sections * kEntryBytes);
  Header header{.version = kProgramVersion, .sections = sections};
  std::copy(kProgramMagic.begin(), kProgramMagic.end(), header.magic.begin());
  put(file, header);
  const auto add = [&](uint32_t at, SectionKind kind, std::span<const std::byte> bytes) {
    file.resize(aligned(file.size()));
    put(std::span(file).subspan(kHeaderBytes + at * kEntryBytes),
        Entry{.kind = kind, .offset = file.size(), .size = bytes.size()});
    file.insert(file.end(), bytes.begin(), bytes.end());
  };
  for (uint32_t k = 1; k < kLastWritten; ++k) {
    Writer section;
    section_fields(static_cast<SectionKind>(k), section, p, dtypes, signatures);
    add(k - 1, static_cast<SectionKind>(k), section.out);
  }
  add(kLastWritten - 1, SectionKind::constants, {p.data.data(), p.data.size()});
  for (size_t i = 0; i < attached.size(); ++i) add(uint32_t(kLastWritten + i), attached[i].kind, attached[i].bytes);
  CHECK(seal(file), "a table that was just written");
  return file;
}

Result<void> write_program(const Program& p, const std::string& path) {
  const auto bytes = program_bytes(p);
  return write_file(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

Result<Program> parse_program(std::span<const std::byte> bytes, std::string_view name,
                              std::shared_ptr<const void> owner, std::vector<Attachment>* attached) {
  return Parser(bytes, name, std::move(owner), attached).run();
}

Result<Program> read_program(const std::string& path) {
  std::shared_ptr<const void> owner;
  const auto bytes = TRY(map_file(TRY(OpenFile::open(path)), owner));
  return parse_program(bytes, path, std::move(owner));
}

static bool is_container(std::span<const std::byte> bytes) {
  return bytes.size() >= kProgramMagic.size() &&
         std::memcmp(bytes.data(), kProgramMagic.data(), kProgramMagic.size()) == 0;
}

static Result<Program> parse_as_text(std::span<const std::byte> bytes, const std::string& name) {
  return assemble({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, name, true);
}

Result<Program> parse_any(std::span<const std::byte> bytes, const std::string& name) {
  return is_container(bytes) ? parse_program(bytes, name) : parse_as_text(bytes, name);
}

Result<Program> load_program(const std::string& path) {
  std::shared_ptr<const void> owner;
  const auto bytes = TRY(map_file(TRY(OpenFile::open(path)), owner));
  return is_container(bytes) ? parse_program(bytes, path, std::move(owner)) : parse_as_text(bytes, path);
}

}  // namespace trine::arch
