// A cache in an S3 bucket: objects <prefix>/v1/<hash>.entry, requests signed by Signature Version 4.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compile/cache/cache.h"

namespace trine::compile {

Result<std::unique_ptr<CacheStore>> open_s3(const std::string& url, const S3Options& options);

// A page of a bucket's listing.
struct S3Page {
  std::vector<CacheEntry> entries = {};  // of those below the prefix that are ours
  std::string next = {};                 // the token of the page behind it; empty: there is none
};
S3Page read_s3_page(std::string_view xml, const std::string& prefix);

// One request, as Signature Version 4 sees it. Times are "20150830T123600Z".
struct SignedRequest {
  std::string method = {}, host = {}, path = {}, query = {};  // path and query as sent, the query sorted
  std::string body_hash = {}, time = {};
};
// The value of the header `authorization`; x-amz-date, x-amz-content-sha256 and any session token are signed too.
std::string authorization(const SignedRequest& request, const S3Options& options);

}  // namespace trine::compile
