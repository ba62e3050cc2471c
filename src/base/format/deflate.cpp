// LZ77 with hash chains and one step of lazy matching, then dynamic Huffman codes per block; see deflate.h.
#include "base/format/deflate.h"

#include <algorithm>
#include <array>
#include <queue>

namespace trine {

namespace {

constexpr size_t kWindow = 32768, kBlock = 1 << 18;
constexpr int kMatchMin = 3, kMatchMax = 258, kChainMax = 48, kGoodEnough = 64;
constexpr int kHashBits = 15;

constexpr int kLiterals = 286, kDistances = 30, kLengthCodes = 19, kEndOfBlock = 256;
constexpr int kLengthBase[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                               31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr int kLengthExtra[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr int kDistanceBase[] = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                 33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr int kDistanceExtra[] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                  6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};
constexpr int kLengthOrder[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
    table[i] = c;
  }
  return table;
}
constexpr auto kCrcTable = make_crc_table();

int code_of(int value, const int* base, int count) {
  return static_cast<int>(std::upper_bound(base, base + count, value) - base) - 1;
}
int length_code(int length) { return code_of(length, kLengthBase, 29); }
int distance_code(int distance) { return code_of(distance, kDistanceBase, 30); }

uint32_t hash_of(const char* p) {
  const auto byte = [&](int i) { return static_cast<uint32_t>(static_cast<unsigned char>(p[i])); };
  return (byte(0) | byte(1) << 8 | byte(2) << 16) * 0x9E3779B1u >> (32 - kHashBits);
}

struct HuffmanCode {
  std::vector<uint8_t> length;
  std::vector<uint16_t> bits;  // already reversed: DEFLATE sends a code's first bit first
};

// Lengths of an optimal prefix code; false when one would exceed `longest`.
bool huffman_lengths(const std::vector<uint32_t>& counts, int longest, std::vector<uint8_t>& length) {
  const size_t n = counts.size();
  std::vector<uint32_t> parent(2 * n, 0);
  using Node = std::pair<uint64_t, uint32_t>;
  std::priority_queue<Node, std::vector<Node>, std::greater<>> heap;
  for (uint32_t i = 0; i < n; ++i)
    if (counts[i]) heap.push({counts[i], i});
  uint32_t next = static_cast<uint32_t>(n);
  while (heap.size() > 1) {
    const Node a = heap.top();
    heap.pop();
    const Node b = heap.top();
    heap.pop();
    parent[a.second] = parent[b.second] = next;
    heap.push({a.first + b.first, next++});
  }
  const uint32_t root = next - 1;
  for (uint32_t i = 0; i < n; ++i) {
    if (!counts[i]) continue;
    int depth = 0;
    for (uint32_t k = i; k != root; k = parent[k]) ++depth;
    if (depth > longest) return false;
    length[i] = static_cast<uint8_t>(depth);
  }
  return true;
}

HuffmanCode make_code(std::vector<uint32_t> counts, int longest) {
  // A lone symbol still needs a bit, and some inflaters want a complete code: two at least.
  auto used = std::count_if(counts.begin(), counts.end(), [](auto c) { return c > 0; });
  for (size_t i = 0; used < 2; ++i)
    if (!counts[i]) counts[i] = 1, ++used;
  HuffmanCode code{std::vector<uint8_t>(counts.size()), std::vector<uint16_t>(counts.size())};
  while (!huffman_lengths(counts, longest, code.length))
    for (auto& c : counts) c = c ? (c >> 2) + 1 : 0;
  std::array<uint32_t, 16> count{}, next{};
  for (const uint8_t l : code.length) count[l] += l > 0;
  for (size_t l = 1; l < next.size(); ++l) next[l] = (next[l - 1] + count[l - 1]) << 1;
  for (size_t i = 0; i < counts.size(); ++i) {
    const int l = code.length[i];
    if (!l) continue;
    uint32_t v = next[static_cast<size_t>(l)]++, reversed = 0;
    for (int b = 0; b < l; ++b, v >>= 1) reversed = reversed << 1 | (v & 1);
    code.bits[i] = static_cast<uint16_t>(reversed);
  }
  return code;
}

// The code lengths as the header sends them: runs of zeros and repeats as symbols 16 to 18 with extra bits.
struct Run {
  uint8_t symbol, extra, extra_bits;
};
std::vector<Run> runs_of(const std::vector<uint8_t>& lengths) {
  std::vector<Run> out;
  for (size_t i = 0; i < lengths.size();) {
    size_t n = 1;
    while (i + n < lengths.size() && lengths[i + n] == lengths[i]) ++n;
    const uint8_t value = lengths[i];
    i += n;
    if (value) {
      out.push_back({value, 0, 0});
      --n;
    }
    while (n >= 3) {
      const size_t take = std::min<size_t>(n, value ? 6 : n >= 11 ? 138 : 10);
      if (value)
        out.push_back({16, static_cast<uint8_t>(take - 3), 2});
      else if (take >= 11)
        out.push_back({18, static_cast<uint8_t>(take - 11), 7});
      else
        out.push_back({17, static_cast<uint8_t>(take - 3), 3});
      n -= take;
    }
    for (; n; --n) out.push_back({value, 0, 0});
  }
  return out;
}

}  // namespace

uint32_t crc32(std::string_view bytes, uint32_t before) {
  uint32_t c = ~before;
  for (const char b : bytes) c = kCrcTable[(c ^ static_cast<unsigned char>(b)) & 0xFF] ^ (c >> 8);
  return ~c;
}

Deflater::Deflater(Wrap wrap) : wrap_(wrap), head_(size_t{1} << kHashBits, -1), chain_(kWindow, -1) {
  if (wrap == Wrap::gzip)
    out_.assign("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);  // no name, no date: same input, same file
  else
    out_.assign("\x78\x9c", 2);
}

void Deflater::write(std::string_view bytes) {
  if (wrap_ == Wrap::gzip) {
    crc_ = crc32(bytes, crc_);
  } else {
    for (const char b : bytes) {
      adler_a_ = (adler_a_ + static_cast<unsigned char>(b)) % 65521;
      adler_b_ = (adler_b_ + adler_a_) % 65521;
    }
  }
  while (!bytes.empty()) {  // blocks begin at fixed positions, however the bytes come
    const size_t take = std::min(bytes.size(), done_ + kBlock + kMatchMax - data_.size());
    data_ += bytes.substr(0, take);
    bytes.remove_prefix(take);
    if (data_.size() == done_ + kBlock + kMatchMax) compress(false);
  }
}

void Deflater::put_bits(uint32_t value, int count) {
  bits_ |= static_cast<uint64_t>(value) << bit_count_;
  for (bit_count_ += count; bit_count_ >= 8; bit_count_ -= 8, bits_ >>= 8) out_ += static_cast<char>(bits_ & 0xFF);
}

void Deflater::remember(size_t at, size_t end) {
  if (at + kMatchMin > end) return;
  int64_t& head = head_[hash_of(&data_[at])];
  const int64_t position = base_ + static_cast<int64_t>(at);
  chain_[static_cast<size_t>(position) % kWindow] = head;
  head = position;
}

int Deflater::longest_match(size_t at, size_t end, int& distance) const {
  if (at + kMatchMin > end) return 0;
  const int limit = static_cast<int>(std::min<size_t>(kMatchMax, end - at));
  const int64_t here = base_ + static_cast<int64_t>(at);
  int best = kMatchMin - 1;
  int64_t position = head_[hash_of(&data_[at])];
  for (int tries = 0; tries < kChainMax && position >= base_ && here - position <= static_cast<int64_t>(kWindow);
       ++tries) {
    const char* then = &data_[static_cast<size_t>(position - base_)];
    const char* now = &data_[at];
    if (then[best] == now[best]) {
      int n = 0;
      while (n < limit && then[n] == now[n]) ++n;
      if (n > best) {
        best = n;
        distance = static_cast<int>(here - position);
        if (n == limit) break;
      }
    }
    const int64_t before = chain_[static_cast<size_t>(position) % kWindow];
    if (before >= position) break;  // overwritten: older than the window
    position = before;
  }
  return best >= kMatchMin ? best : 0;
}

// Matches may look past `end` of the block, into what the buffer holds beyond it.
void Deflater::find_tokens(size_t end) {
  tokens_.clear();
  int distance = 0, length = longest_match(done_, data_.size(), distance);
  while (done_ < end) {
    remember(done_, data_.size());
    int next_distance = 0, next = 0;
    if (length < kGoodEnough && done_ + 1 < end) next = longest_match(done_ + 1, data_.size(), next_distance);
    length = std::min<int>(length, static_cast<int>(end - done_));
    if (length < kMatchMin || next > length) {
      tokens_.push_back(static_cast<unsigned char>(data_[done_++]));
      length = next, distance = next_distance;
      continue;
    }
    tokens_.push_back(static_cast<uint32_t>(length) << 16 | static_cast<uint32_t>(distance));
    for (int i = 1; i < length; ++i) remember(done_ + static_cast<size_t>(i), data_.size());
    done_ += static_cast<size_t>(length);
    length = done_ < end ? longest_match(done_, data_.size(), distance) : 0;
  }
}

void Deflater::put_block(bool last) {
  std::vector<uint32_t> literals(kLiterals), distances(kDistances), lengths(kLengthCodes);
  literals[kEndOfBlock] = 1;
  for (const uint32_t t : tokens_) {
    const int length = static_cast<int>(t >> 16);
    ++literals[static_cast<size_t>(length ? 257 + length_code(length) : static_cast<int>(t))];
    if (length) ++distances[static_cast<size_t>(distance_code(t & 0xFFFF))];
  }
  const HuffmanCode literal = make_code(literals, 15), distance = make_code(distances, 15);
  std::vector<uint8_t> both = literal.length;
  both.insert(both.end(), distance.length.begin(), distance.length.end());
  const auto runs = runs_of(both);
  for (const Run& r : runs) ++lengths[r.symbol];
  const HuffmanCode length_codes = make_code(lengths, 7);
  put_bits(last, 1);
  put_bits(2, 2);  // dynamic codes
  put_bits(kLiterals - 257, 5);
  put_bits(kDistances - 1, 5);
  put_bits(kLengthCodes - 4, 4);
  for (const int i : kLengthOrder) put_bits(length_codes.length[static_cast<size_t>(i)], 3);
  for (const Run& r : runs) {
    put_bits(length_codes.bits[r.symbol], length_codes.length[r.symbol]);
    put_bits(r.extra, r.extra_bits);
  }
  const auto put = [&](const HuffmanCode& c, int symbol) {
    put_bits(c.bits[static_cast<size_t>(symbol)], c.length[static_cast<size_t>(symbol)]);
  };
  for (const uint32_t t : tokens_) {
    const int l = static_cast<int>(t >> 16), d = static_cast<int>(t & 0xFFFF);
    if (!l) {
      put(literal, static_cast<int>(t));
      continue;
    }
    const int lc = length_code(l), dc = distance_code(d);
    put(literal, 257 + lc);
    put_bits(static_cast<uint32_t>(l - kLengthBase[lc]), kLengthExtra[lc]);
    put(distance, dc);
    put_bits(static_cast<uint32_t>(d - kDistanceBase[dc]), kDistanceExtra[dc]);
  }
  put(literal, kEndOfBlock);
}

void Deflater::compress(bool last) {
  find_tokens(last ? data_.size() : done_ + kBlock);
  put_block(last);
  const size_t keep = std::min(done_, kWindow), drop = done_ - keep;
  data_.erase(0, drop);
  done_ -= drop;
  base_ += static_cast<int64_t>(drop);
}

std::string Deflater::finish() {
  compress(true);
  if (bit_count_) put_bits(0, 8 - bit_count_);
  const auto put_bytes = [&](uint32_t v, bool big) {
    for (int i = 0; i < 4; ++i) out_ += static_cast<char>(v >> (big ? 24 - 8 * i : 8 * i));
  };
  if (wrap_ == Wrap::gzip) {
    put_bytes(crc_, false);
    put_bytes(static_cast<uint32_t>(base_ + static_cast<int64_t>(data_.size())), false);  // modulo 2^32
  } else {
    put_bytes(adler_b_ << 16 | adler_a_, true);
  }
  return std::move(out_);
}

std::string deflate(Deflater::Wrap wrap, std::string_view bytes) {
  Deflater d(wrap);
  d.write(bytes);
  return d.finish();
}

}  // namespace trine
