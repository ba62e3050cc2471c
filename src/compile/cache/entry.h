// An entry as it is stored: a line of JSON with the key, sizes and a checksum, then the bytes.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "compile/cache/cache.h"

namespace trine::compile {

std::string write_entry(const CacheKey& key, std::string_view bytes);

struct Entry {
  CacheKey key;
  std::string_view bytes;  // of the text given
};
// Refuses what is torn, altered or another entry's. `hash`: whose it must be; empty: any.
Result<Entry> read_entry(std::string_view text, std::string_view hash);

// What the beginning of an entry says it is about; empty where that cannot be read.
std::string about_entry(std::string_view beginning);

}  // namespace trine::compile
