// An entry as it is stored: a line with the checksum or signature of the rest, a line of JSON with the key and the
// size, then the bytes.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "compile/cache/cache.h"

namespace trine::compile {

// secret: signs the head and the bytes (HMAC-SHA256); empty: a checksum of both.
std::string write_entry(const CacheKey& key, std::string_view bytes, std::string_view secret = {});

struct Entry {
  CacheKey key;
  std::string_view bytes;  // of the text given
};
// Refuses what is torn, altered, another entry's or not signed by `secret`. `hash`: whose it must be; empty: any.
Result<Entry> read_entry(std::string_view text, std::string_view hash, std::string_view secret = {});

// What the beginning of an entry says it is about; empty where that cannot be read.
std::string about_entry(std::string_view beginning);

}  // namespace trine::compile
