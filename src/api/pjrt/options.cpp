// A walk over protobuf's wire format, for the few fields of CompileOptionsProto that matter; and a
// DeviceAssignmentProto written back. Fields that are not known are skipped, as the format allows.
#include <functional>

#include "api/pjrt/calls.h"
#include "base/text.h"

namespace trine::api::pjrt {

namespace {

struct Field {
  uint64_t number = 0, value = 0;  // value of a varint
  std::string_view bytes = {};     // of a length-delimited field
};

bool read_varint(std::string_view& from, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !from.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(from.front());
    from.remove_prefix(1);
    value |= uint64_t(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return true;
  }
  return false;
}

Result<void> walk(std::string_view from, const std::function<Result<void>(const Field&)>& visit) {
  const auto cut = [] { return fail(Code::invalid, "compile options end in the middle of a field"); };
  while (!from.empty()) {
    uint64_t tag = 0, size = 0;
    if (!read_varint(from, tag)) return cut();
    Field field{.number = tag >> 3};
    switch (tag & 7) {
      case 0:
        if (!read_varint(from, field.value)) return cut();
        break;
      case 2:
        if (!read_varint(from, size) || size > from.size()) return cut();
        field.bytes = from.substr(0, size);
        from.remove_prefix(size);
        break;
      case 1:
      case 5:
        size = (tag & 7) == 1 ? 8 : 4;
        if (size > from.size()) return cut();
        from.remove_prefix(size);
        break;
      default:
        return fail(Code::invalid, cat("compile options hold a field of wire type ", tag & 7));
    }
    TRY(visit(field));
  }
  return {};
}

// DeviceAssignmentProto: 1 replicas, 2 partitions, 3 per partition {1: device of each replica, packed or not}.
Result<std::vector<int64_t>> parse_assignment(std::string_view bytes) {
  uint64_t replicas = 0;
  std::vector<std::vector<int64_t>> partitions;
  const auto add_ids = [&](const Field& ids) -> Result<void> {
    if (ids.number != 1) return {};
    if (ids.bytes.empty()) {
      partitions.back().push_back(int64_t(ids.value));
      return {};
    }
    uint64_t id = 0;
    for (std::string_view rest = ids.bytes; !rest.empty();) {
      if (!read_varint(rest, id)) return fail(Code::invalid, "a device assignment ends in the middle of a number");
      partitions.back().push_back(int64_t(id));
    }
    return {};
  };
  TRY(walk(bytes, [&](const Field& field) -> Result<void> {
    if (field.number == 1) replicas = field.value;
    if (field.number != 3) return {};
    partitions.emplace_back();
    return walk(field.bytes, add_ids);
  }));
  std::vector<int64_t> out;
  for (size_t r = 0; r < replicas; ++r)
    for (const auto& ids : partitions) {
      if (ids.size() != replicas) return fail(Code::invalid, "a device assignment of uneven size");
      out.push_back(ids[r]);
    }
  return out;
}

// An entry of a map: 1 name, 2 OptionOverrideProto {1: text, 2: bool, 3: integer}.
Result<std::pair<std::string, std::string>> parse_override(std::string_view bytes) {
  std::pair<std::string, std::string> out;
  TRY(walk(bytes, [&](const Field& entry) -> Result<void> {
    if (entry.number == 1) out.first = entry.bytes;
    if (entry.number != 2) return {};
    return walk(entry.bytes, [&](const Field& value) -> Result<void> {
      out.second = value.number == 1 ? std::string(value.bytes) : cat(value.value);
      return {};
    });
  }));
  return out;
}

}  // namespace

void write_varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += char(value | 0x80);
  to += char(value);
}

Result<ParsedOptions> parse_compile_options(std::string_view bytes) {
  constexpr uint64_t kOverrides = 7, kBuildOptions = 3, kReplicas = 4, kPartitions = 5, kAssignment = 9;
  constexpr int64_t kCountMax = 1 << 20;
  ParsedOptions out;
  TRY(walk(bytes, [&](const Field& top) -> Result<void> {
    if (top.number == kOverrides) out.own.push_back(TRY(parse_override(top.bytes)));
    if (top.number != kBuildOptions) return {};
    return walk(top.bytes, [&](const Field& field) -> Result<void> {
      if (field.number == kReplicas) out.compile.replicas = std::max<int64_t>(1, int64_t(field.value));
      if (field.number == kPartitions) out.compile.partitions = std::max<int64_t>(1, int64_t(field.value));
      if (field.number == kAssignment) out.devices = TRY(parse_assignment(field.bytes));
      return {};
    });
  }));
  if (out.compile.replicas > kCountMax || out.compile.partitions > kCountMax)
    return fail(Code::invalid, cat("compile options ask for ", out.compile.replicas, " replicas and ",
                                   out.compile.partitions, " partitions"));
  return out;
}

std::string device_assignment_bytes(const run::Assignment& assignment, std::span<Device* const> devices) {
  std::string out = "\x08";
  write_varint(out, uint64_t(assignment.replicas));
  out += "\x10";
  write_varint(out, uint64_t(assignment.partitions));
  for (int64_t p = 0; p < assignment.partitions; ++p) {
    std::string ids;
    for (int64_t r = 0; r < assignment.replicas; ++r)
      write_varint(ids, uint64_t(devices[size_t(r * assignment.partitions + p)]->description.id));
    std::string column = "\x0a";
    write_varint(column, ids.size());
    column += ids;
    out += "\x1a";
    write_varint(out, column.size());
    out += column;
  }
  return out;
}

}  // namespace trine::api::pjrt
