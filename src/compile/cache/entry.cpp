// The checksum is for accidents, at memory speed: four lanes of multiplies. Against enemies there is the signature.
#include "compile/cache/entry.h"

#include <bit>
#include <cstring>

#include "base/format/json.h"
#include "base/format/sha256.h"
#include "base/text.h"

namespace trine::compile {

namespace {

constexpr std::string_view kMagic = "trine cache entry 2\n";
constexpr int64_t kVersion = 2;

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

std::string seal_of(std::string_view rest, std::string_view secret) {
  if (!secret.empty()) return hex(hmac_sha256(secret, rest));
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(checksum(rest)));
  return text;
}

// Without telling by its time how much agrees.
bool same_in_equal_time(std::string_view a, std::string_view b) {
  int differ = a.size() != b.size();
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) differ |= a[i] ^ b[i];
  return differ == 0;
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

bool is_cache_hash(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string write_entry(const CacheKey& key, std::string_view bytes, std::string_view secret) {
  const Json head = Json::object()
                        .set("version", kVersion)
                        .set("key", key.hash)
                        .set("about", key.about)
                        .set("bytes", int64_t(bytes.size()));
  const std::string rest = cat(head.text(0), "\n", bytes);
  return cat(kMagic, seal_of(rest, secret), "\n", rest);
}

std::string about_entry(std::string_view beginning) {
  const size_t head_at = beginning.starts_with(kMagic) ? beginning.find('\n', kMagic.size()) : std::string_view::npos;
  if (head_at == std::string_view::npos) return {};
  beginning.remove_prefix(head_at + 1);
  auto head = parse_json(beginning.substr(0, beginning.find('\n')), "head");
  const Json* about = head ? head->find("about") : nullptr;
  return about != nullptr ? about->string() : std::string();
}

Result<Entry> read_entry(std::string_view text, std::string_view hash, std::string_view secret) {
  const auto bad = [](std::string why) { return fail(Code::invalid, std::move(why)); };
  if (!text.starts_with(kMagic)) return bad("does not begin as an entry does");
  text.remove_prefix(kMagic.size());
  const size_t seal_end = text.find('\n'), end = text.find('\n', seal_end + 1);
  if (seal_end == std::string_view::npos || end == std::string_view::npos) return bad("ends within its head");
  const std::string_view seal = text.substr(0, seal_end), rest = text.substr(seal_end + 1);
  if (!same_in_equal_time(seal, seal_of(rest, secret)))
    return bad(secret.empty() ? "has another checksum" : "is not signed by the key of TRINE_CACHE_KEY");
  auto head = parse_json(text.substr(seal_end + 1, end - seal_end - 1), "head");
  if (!head) return bad("its head is no JSON");
  const std::string_view body = text.substr(end + 1);
  const auto value = [&](const char* name) {
    const Json* found = head->find(name);
    return found != nullptr ? *found : Json();
  };
  if (value("version").integer() != kVersion) return bad(cat("is of version ", value("version").integer()));
  if (!hash.empty() && value("key").string() != hash) return bad("is another key's entry");
  if (value("bytes").integer() != int64_t(body.size()))
    return bad(cat("has ", body.size(), " of ", value("bytes").integer(), " bytes"));
  return Entry{{value("key").string(), value("about").string()}, body};
}

}  // namespace trine::compile
