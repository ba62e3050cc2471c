// The checksum is for accidents, not for enemies: four lanes of multiplies, at memory speed.
#include "compile/cache/entry.h"

#include <bit>
#include <cstring>

#include "base/format/json.h"
#include "base/format/sha256.h"
#include "base/text.h"

namespace trine::compile {

namespace {

constexpr std::string_view kMagic = "trine cache entry\n";
constexpr int64_t kVersion = 1;

uint64_t checksum(std::string_view bytes) {
  uint64_t lanes[4] = {1, 2, 3, 4};
  const auto mix = [](uint64_t lane, uint64_t word) {
    return std::rotl((lane ^ word) * 0x9e3779b97f4a7c15, 29) + 0xd6e8feb86659fd93;
  };
  size_t at = 0;
  for (; at + 32 <= bytes.size(); at += 32)
    for (size_t i = 0; i < 4; ++i) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at + 8 * i, 8);
      lanes[i] = mix(lanes[i], word);
    }
  for (; at < bytes.size(); ++at) lanes[0] = mix(lanes[0], uint8_t(bytes[at]));
  uint64_t out = bytes.size();
  for (uint64_t lane : lanes) out = mix(out, lane);
  return out;
}

std::string checksum_text(std::string_view bytes) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(checksum(bytes)));
  return text;
}

}  // namespace

CacheKey cache_key(std::string_view graph, std::string_view chip, std::string_view flags, std::string_view compiler,
                   std::string_view about) {
  Sha256 hash;
  for (std::string_view part : {graph, chip, flags, compiler}) {
    hash.add(cat(part.size(), ":"));
    hash.add(part);
  }
  return {hex(hash.finish()), std::string(about)};
}

std::string write_entry(const CacheKey& key, std::string_view bytes) {
  const Json head = Json::object()
                        .set("version", kVersion)
                        .set("key", key.hash)
                        .set("about", key.about)
                        .set("bytes", int64_t(bytes.size()))
                        .set("checksum", checksum_text(bytes));
  return cat(kMagic, head.text(0), "\n", bytes);
}

std::string about_entry(std::string_view beginning) {
  if (!beginning.starts_with(kMagic)) return {};
  beginning.remove_prefix(kMagic.size());
  auto head = parse_json(beginning.substr(0, beginning.find('\n')), "head");
  const Json* about = head ? head->find("about") : nullptr;
  return about != nullptr ? about->string() : std::string();
}

Result<Entry> read_entry(std::string_view text, std::string_view hash) {
  const auto bad = [](std::string why) { return fail(Code::invalid, std::move(why)); };
  if (!text.starts_with(kMagic)) return bad("does not begin as an entry does");
  text.remove_prefix(kMagic.size());
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return bad("ends within its head");
  auto head = parse_json(text.substr(0, end), "head");
  if (!head) return bad("its head is no JSON");
  const std::string_view body = text.substr(end + 1);
  const auto value = [&](const char* name) {
    const Json* found = head->find(name);
    return found != nullptr ? *found : Json();
  };
  if (value("version").integer() != kVersion) return bad(cat("is of version ", value("version").integer()));
  if (!hash.empty() && value("key").string() != hash) return bad(cat("is the entry of ", value("key").string()));
  if (value("bytes").integer() != int64_t(body.size()))
    return bad(cat("has ", body.size(), " of ", value("bytes").integer(), " bytes"));
  if (value("checksum").string() != checksum_text(body)) return bad("has another checksum");
  return Entry{{value("key").string(), value("about").string()}, body};
}

}  // namespace trine::compile
