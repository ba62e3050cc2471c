// Any bytes as a page of a bucket's listing: entries have hashes for names and no negative sizes.
#include "compile/cache/s3.h"

#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trine::compile;
  const S3Page page = read_s3_page({reinterpret_cast<const char*>(data), size}, "cache/v1/");
  for (const CacheEntry& e : page.entries) CHECK(is_cache_hash(e.hash) && e.bytes >= 0, "an entry's name and size");
  return 0;
}
