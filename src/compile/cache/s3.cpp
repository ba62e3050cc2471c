// S3 over libcurl: four calls, signed; errors say what S3 said and which variable to look at.
#include "compile/cache/s3.h"

#include <curl/curl.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>
#include <thread>

#include "base/format/sha256.h"
#include "base/text.h"

namespace trine::compile {

namespace {

constexpr int kAttempts = 3;
constexpr long kConnectMs = 5000, kAllMs = 120000;
constexpr long kSlowBytes = 1024, kSlowSeconds = 20;   // a body that comes slower for so long is given up
constexpr auto kDeadline = std::chrono::seconds(180);  // of a call with all its attempts, or of a whole listing
constexpr size_t kBodyMax = size_t{4} << 30;           // of an entry
constexpr size_t kListMax = size_t{16} << 20;          // of one page of a listing, or of what is said of an error
constexpr size_t kPagesMax = 10'000;

std::string percent(std::string_view text, bool keeps_slash) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (unsigned char c : text) {
    const bool plain = std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~' || (c == '/' && keeps_slash);
    if (plain) {
      out += char(c);
    } else {
      out += '%', out += kHex[c >> 4], out += kHex[c & 15];
    }
  }
  return out;
}

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  char text[20];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
  return text;
}

// The text between <name> and </name>, from `at` on, which moves behind it.
std::string between(std::string_view xml, std::string_view name, size_t& at) {
  const std::string open = cat("<", name, ">"), close = cat("</", name, ">");
  const size_t begin = xml.find(open, at);
  const size_t end = begin == std::string_view::npos ? begin : xml.find(close, begin);
  if (end == std::string_view::npos) {
    at = std::string_view::npos;
    return {};
  }
  at = end + close.size();
  return std::string(xml.substr(begin + open.size(), end - begin - open.size()));
}
std::string between(std::string_view xml, std::string_view name) {
  size_t at = 0;
  return between(xml, name, at);
}

struct Answer {
  long status = 0;
  std::string body = {};
};

// As much as is wanted, no more; fewer bytes than were given end the request.
struct Body {
  std::string text = {};
  size_t most = 0;
  bool is_too_long = false;
};

size_t append_body(char* data, size_t size, size_t count, void* to) {
  Body& body = *static_cast<Body*>(to);
  body.is_too_long = size * count > body.most - body.text.size();
  if (body.is_too_long) return 0;
  try {
    body.text.append(data, size * count);
  } catch (const std::bad_alloc&) {  // nothing may be thrown through curl
    body.is_too_long = true;
    return 0;
  }
  return size * count;
}

struct Curl {
  CURL* handle = nullptr;
  curl_slist* headers = nullptr;
  Curl() {
    static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
    handle = ready == CURLE_OK ? curl_easy_init() : nullptr;
  }
  Curl(const Curl&) = delete;
  Curl& operator=(const Curl&) = delete;
  ~Curl() {
    curl_slist_free_all(headers);
    curl_easy_cleanup(handle);
  }
  void header(const std::string& line) { headers = curl_slist_append(headers, line.c_str()); }
};

class S3 : public CacheStore {
 public:
  S3(S3Options options, std::string bucket, std::string prefix)
      : options_(std::move(options)), bucket_(std::move(bucket)), prefix_(std::move(prefix)) {}

  Result<std::string> read(const std::string& hash) override {
    Answer answer = TRY(send("GET", key_of(hash), "", {}, kBodyMax));
    if (answer.status == 200) return std::move(answer.body);
    return refused("read", answer);
  }

  Result<void> write(const std::string& hash, std::string_view bytes) override {
    const Answer answer = TRY(send("PUT", key_of(hash), "", bytes));
    if (answer.status != 200) return refused("write", answer);
    return {};
  }

  Result<void> remove(const std::string& hash) override {
    const Answer answer = TRY(send("DELETE", key_of(hash), "", {}));
    if (answer.status != 204 && answer.status != 200 && answer.status != 404) return refused("remove from", answer);
    return {};
  }

  Result<std::vector<CacheEntry>> list(bool) override {
    std::vector<CacheEntry> out;
    std::string more;
    size_t pages = 0;
    const auto end = std::chrono::steady_clock::now() + kDeadline;
    do {
      if (++pages > kPagesMax || std::chrono::steady_clock::now() > end)
        return fail(Code::io, cat("cannot list s3://", bucket_, ": it goes on after ", pages - 1,
                                  " pages; expected at most ", kPagesMax, " in ", kDeadline.count(), " s"));
      std::string query = more.empty() ? "" : cat("continuation-token=", percent(more, false), "&");
      append_text(query, cat("list-type=2&prefix=", percent(prefix_, false)));
      const Answer answer = TRY(send("GET", "", query, {}));
      if (answer.status != 200) return refused("list", answer);
      S3Page page = read_s3_page(answer.body, prefix_);
      out.insert(out.end(), page.entries.begin(), page.entries.end());
      if (!page.next.empty() && page.next == more)
        return fail(Code::io, cat("cannot list s3://", bucket_, ": it names the same page twice"));
      more = std::move(page.next);
    } while (!more.empty());
    return out;
  }

 private:
  std::string key_of(const std::string& hash) const { return cat(prefix_, hash, ".entry"); }

  // What S3 said, and what to look at.
  Error refused(std::string_view what, const Answer& answer) const {
    const std::string code = between(answer.body, "Code"), message = between(answer.body, "Message");
    const std::string target = cat("s3://", bucket_, options_.endpoint.empty() ? "" : cat(" at ", options_.endpoint));
    const std::string why = cat("cannot ", what, " ", target, ": ", answer.status, code.empty() ? "" : " ", code,
                                message.empty() ? "" : ", ", message);
    if (answer.status == 404 && code != "NoSuchBucket") return fail(Code::not_found, why);
    if (code == "NoSuchBucket")
      return fail(Code::io, cat(why, "; make the bucket, or set NEURON_COMPILE_CACHE_URL to another"));
    if (answer.status == 401 || answer.status == 403)
      return fail(Code::io,
                  cat(why, "; look at AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and AWS_REGION"));
    return fail(Code::io, why);
  }

  Result<Answer> send(const std::string& method, const std::string& key, const std::string& query,
                      std::string_view body, size_t answer_max = kListMax) {
    const auto end = std::chrono::steady_clock::now() + kDeadline;
    for (int attempt = 1;; ++attempt) {
      auto answer = send_once(method, key, query, body, answer_max);
      const bool passes = answer ? answer->status < 500 && answer->status != 429
                                 : answer.error().code == Code::out_of_range;  // too long: it will not be shorter
      if (passes || attempt == kAttempts || std::chrono::steady_clock::now() > end) return answer;
      std::this_thread::sleep_for(std::chrono::milliseconds(100 << attempt));
    }
  }

  Result<Answer> send_once(const std::string& method, const std::string& key, const std::string& query,
                           std::string_view body, size_t answer_max) {
    // An endpoint of one's own has the bucket in the path, AWS in the host.
    const bool own = !options_.endpoint.empty();
    const std::string host = own ? options_.endpoint.substr(options_.endpoint.find("://") + 3)
                                 : cat(bucket_, ".s3.", options_.region, ".amazonaws.com");
    SignedRequest request{.method = method,
                          .host = host,
                          .path = cat("/", own ? bucket_ : "", own && !key.empty() ? "/" : "", percent(key, true)),
                          .query = query,
                          .body_hash = hex(sha256(body)),
                          .time = time_now()};
    const std::string url =
        cat(own ? options_.endpoint : "https://" + host, request.path, query.empty() ? "" : "?", query);
    Curl curl;
    if (curl.handle == nullptr) return fail(Code::internal, "libcurl cannot start");
    Body got{.most = answer_max};
    char why[CURL_ERROR_SIZE] = {};
    curl.header(cat("authorization: ", authorization(request, options_)));
    curl.header(cat("x-amz-date: ", request.time));
    curl.header(cat("x-amz-content-sha256: ", request.body_hash));
    if (!options_.session_token.empty()) curl.header(cat("x-amz-security-token: ", options_.session_token));
    curl.header("expect:");
    if (method == "PUT") curl.header("content-type: application/octet-stream");
    curl_easy_setopt(curl.handle, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl.handle, CURLOPT_HTTPHEADER, curl.headers);
    curl_easy_setopt(curl.handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl.handle, CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
    curl_easy_setopt(curl.handle, CURLOPT_TIMEOUT_MS, kAllMs);
    curl_easy_setopt(curl.handle, CURLOPT_LOW_SPEED_LIMIT, kSlowBytes);
    curl_easy_setopt(curl.handle, CURLOPT_LOW_SPEED_TIME, kSlowSeconds);
    curl_easy_setopt(curl.handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl.handle, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl.handle, CURLOPT_WRITEFUNCTION, append_body);
    curl_easy_setopt(curl.handle, CURLOPT_WRITEDATA, &got);
    curl_easy_setopt(curl.handle, CURLOPT_ERRORBUFFER, why);
    if (method != "GET") curl_easy_setopt(curl.handle, CURLOPT_CUSTOMREQUEST, method.c_str());
    if (method == "PUT") {
      curl_easy_setopt(curl.handle, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(body.size()));
      curl_easy_setopt(curl.handle, CURLOPT_POSTFIELDS, body.data());
    }
    const CURLcode code = curl_easy_perform(curl.handle);
    if (got.is_too_long)
      return fail(Code::out_of_range, cat("s3://", bucket_, " at ", host, " answers more than ",
                                          with_unit_bytes(double(answer_max)), ", or than memory holds"));
    if (code != CURLE_OK)
      return fail(Code::io,
                  cat("cannot reach s3://", bucket_, " at ", host, ": ", why[0] != 0 ? why : curl_easy_strerror(code)));
    Answer out{.body = std::move(got.text)};
    curl_easy_getinfo(curl.handle, CURLINFO_RESPONSE_CODE, &out.status);
    return out;
  }

  S3Options options_;
  std::string bucket_, prefix_;
};

std::optional<CacheEntry> read_item(std::string_view item, const std::string& prefix) {
  const std::string key = between(item, "Key"), time = between(item, "LastModified");
  constexpr std::string_view kEnd = ".entry";
  if (!key.starts_with(prefix) || !key.ends_with(kEnd) || key.size() < prefix.size() + kEnd.size()) return {};
  const std::string hash = key.substr(prefix.size(), key.size() - prefix.size() - kEnd.size());
  if (!is_cache_hash(hash)) return {};
  std::tm parts = {};
  const bool timed = ::strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) != nullptr;
  return CacheEntry{.hash = hash,
                    .bytes = std::max(std::atoll(between(item, "Size").c_str()), 0LL),
                    .used = timed ? double(::timegm(&parts)) : 0};
}

}  // namespace

S3Page read_s3_page(std::string_view xml, const std::string& prefix) {
  S3Page out;
  for (size_t at = 0; at != std::string_view::npos;)
    if (auto entry = read_item(between(xml, "Contents", at), prefix)) out.entries.push_back(*std::move(entry));
  if (between(xml, "IsTruncated") == "true") out.next = between(xml, "NextContinuationToken");
  return out;
}

std::string authorization(const SignedRequest& r, const S3Options& o) {
  const std::string day = r.time.substr(0, 8), scope = cat(day, "/", o.region, "/s3/aws4_request");
  const bool token = !o.session_token.empty();
  const std::string names = cat("host;x-amz-content-sha256;x-amz-date", token ? ";x-amz-security-token" : "");
  const std::string canonical =
      cat(r.method, "\n", r.path, "\n", r.query, "\nhost:", r.host, "\nx-amz-content-sha256:", r.body_hash,
          "\nx-amz-date:", r.time, "\n", token ? cat("x-amz-security-token:", o.session_token, "\n") : "", "\n", names,
          "\n", r.body_hash);
  const std::string to_sign = cat("AWS4-HMAC-SHA256\n", r.time, "\n", scope, "\n", hex(sha256(canonical)));
  Digest key = hmac_sha256(cat("AWS4", o.secret_key), day);
  for (std::string_view part : {std::string_view(o.region), std::string_view("s3"), std::string_view("aws4_request")})
    key = hmac_sha256(view(key), part);
  return cat("AWS4-HMAC-SHA256 Credential=", o.access_key, "/", scope, ", SignedHeaders=", names,
             ", Signature=", hex(hmac_sha256(view(key), to_sign)));
}

Result<std::unique_ptr<CacheStore>> open_s3(const std::string& url, const S3Options& given) {
  std::string_view rest = std::string_view(url).substr(5);
  const size_t slash = rest.find('/');
  const std::string bucket(rest.substr(0, slash));
  std::string prefix(slash == std::string_view::npos ? "" : rest.substr(slash + 1));
  while (prefix.ends_with('/')) prefix.pop_back();
  if (bucket.empty()) return fail(Code::invalid, cat("the cache's place is `", url, "`; expected s3://bucket/prefix"));
  if (given.access_key.empty() || given.secret_key.empty())
    return fail(Code::invalid,
                cat("a cache at ", url, " needs credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"));
  S3Options options = given;
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
  if (!options.endpoint.empty() && !options.endpoint.starts_with("http://") &&
      !options.endpoint.starts_with("https://"))
    return fail(Code::invalid,
                cat("AWS_ENDPOINT_URL is `", options.endpoint, "`; expected http://host:port or https://host"));
  return std::unique_ptr<CacheStore>(
      std::make_unique<S3>(options, bucket, cat(prefix, prefix.empty() ? "" : "/", "v1/")));
}

}  // namespace trine::compile
