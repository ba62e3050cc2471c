// Text to graph: a recursive reader with one token of look-ahead. Every error says the line, what was found and what
// was expected. Sizes are bounded before memory is taken.
#include <charconv>
#include <unordered_map>

#include "base/text.h"
#include "ir/text.h"

namespace trine::ir {

namespace {

constexpr int kDepthMax = 64;  // of regions in regions
constexpr int64_t kElementsMax = int64_t{1} << 44;

class Reader {
 public:
  Reader(std::string_view in, std::string_view name) : in_(in), name_(name) {}

  Result<Graph> graph() {
    TRY(word("graph"));
    g_.name = TRY(string());
    g_.params = TRY(params());
    if (next_is('{') && !opens_body()) g_.attrs = TRY(attrs());
    if (take_word("donate")) {
      for (int64_t d : TRY(ints())) g_.donations.push_back(int(d));
    }
    TRY(body(g_.results, g_.effects, 0));
    skip();
    if (at_ != in_.size()) return wrong("nothing after the graph");
    return std::move(g_);
  }

 private:
  Error wrong(std::string_view expected) {
    size_t line = 1;
    for (size_t i = 0; i < std::min(at_, in_.size()); ++i) line += in_[i] == '\n';
    const std::string_view rest = in_.substr(std::min(at_, in_.size()), 20);
    return fail(Code::invalid,
                rest.empty() ? cat("the text ends; expected ", expected)
                             : cat("found `", rest.substr(0, rest.find('\n')), "`; expected ", expected),
                cat(name_, ":", line));
  }
  void skip() {
    while (at_ < in_.size() && (in_[at_] == ' ' || in_[at_] == '\n' || in_[at_] == '\t' || in_[at_] == '\r')) ++at_;
  }
  bool next_is(char c) {
    skip();
    return at_ < in_.size() && in_[at_] == c;
  }
  bool take(char c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  Result<void> expect(char c) {
    if (!take(c)) return wrong(cat("`", c, "`"));
    return {};
  }
  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
  }
  std::string_view peek() {
    skip();
    size_t end = at_;
    while (end < in_.size() && is_word(in_[end])) ++end;
    return in_.substr(at_, end - at_);
  }
  bool take_word(std::string_view w) {
    if (peek() != w) return false;
    at_ += w.size();
    return true;
  }
  Result<void> word(std::string_view w) {
    if (!take_word(w)) return wrong(cat("`", w, "`"));
    return {};
  }
  Result<std::string_view> name(std::string_view what) {
    const std::string_view w = peek();
    if (w.empty()) return wrong(what);
    at_ += w.size();
    return w;
  }
  // A graph's attributes and its body both open with a brace; only a body's first word may be %, keep or return.
  bool opens_body() {
    const size_t here = at_;
    take('{');
    const bool body = next_is('%') || peek() == "keep" || peek() == "return";
    at_ = here;
    return body;
  }
  template <class T>
  Result<T> number() {
    skip();
    T v{};
    auto [end, bad] = std::from_chars(in_.data() + at_, in_.data() + in_.size(), v);
    if (bad != std::errc{}) return wrong("a number");
    at_ = size_t(end - in_.data());
    return v;
  }
  static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }
  Result<std::string> string() {
    if (!take('"')) return wrong("a string");
    std::string out;
    while (at_ < in_.size() && in_[at_] != '"') {
      char c = in_[at_++];
      if (c == '\\') {
        if (at_ >= in_.size()) return wrong("the rest of a string");
        c = in_[at_++];
        if (c == 'x') {
          if (at_ + 2 > in_.size() || digit(in_[at_]) < 0 || digit(in_[at_ + 1]) < 0) return wrong("two hex digits");
          c = char(digit(in_[at_]) * 16 + digit(in_[at_ + 1]));
          at_ += 2;
        }
      }
      out += c;
    }
    TRY(expect('"'));
    return out;
  }
  Result<Ints> ints() {
    Ints out;
    TRY(expect('['));
    while (!take(']')) {
      if (!out.empty()) TRY(expect(','));
      out.push_back(TRY(number<int64_t>()));
    }
    return out;
  }
  Result<Type> type() {
    const std::string_view w = peek();
    if (w == "token") {
      at_ += w.size();
      return token_type();
    }
    Type t;
    t.dtype = TRY(dtype());
    t.dims = TRY(ints());
    int64_t n = bytes(t.dtype);
    for (int64_t d : t.dims) {
      if (d < 0 || (d > 0 && n > kElementsMax / d))
        return wrong("dims that are not negative and hold a tensor below 16 TiB");
      n *= std::max<int64_t>(d, 1);
    }
    if (at_ < in_.size() && in_[at_] == '{' && at_ + 1 < in_.size() && digit(in_[at_ + 1]) >= 0) {
      ++at_;
      while (!take('}')) {
        if (!t.layout.empty()) TRY(expect(','));
        t.layout.push_back(TRY(number<int64_t>()));
      }
    }
    if (at_ < in_.size() && in_[at_] == '@') {
      ++at_;
      t.sharding = TRY(string());
    }
    return t;
  }
  Result<Dtype> dtype() {
    const std::string_view w = peek();
    for (const DtypeRow& r : kDtypes) {
      if (r.name != w || r.kind == DtypeKind::packed) continue;
      at_ += w.size();
      return r.dtype;
    }
    return wrong("a number format such as f32");
  }
  Result<Tensor> tensor() {
    const Type t = TRY(type());
    const size_t each = size_t(bytes(t.dtype)), size = size_t(t.elements()) * each;
    const bool all = take_word("all");
    skip();
    if (at_ >= in_.size() || in_[at_] != 'x') return wrong("the bytes of a constant, x...");
    ++at_;
    const size_t given = all ? each : size;
    if (given > (in_.size() - at_) / 2) return wrong(cat(given * 2, " hex digits"));
    if (size > (size_t{1} << 30) && size > given) return wrong("a constant of equal elements up to 1 GiB");
    Tensor out = Tensor::make(t.dtype, t.dims);
    auto* p = out.data.get();
    for (size_t i = 0; i < given && i < size; ++i) {
      const int high = digit(in_[at_ + 2 * i]), low = digit(in_[at_ + 2 * i + 1]);
      if (high < 0 || low < 0) return wrong("hex digits");
      p[i] = std::byte(high * 16 + low);
    }
    at_ += given * 2;
    for (size_t i = each; all && i < size; ++i) p[i] = p[i - each];
    return out;
  }
  Result<Attr> attr() {
    if (next_is('"')) return Attr(TRY(string()));
    if (next_is('[')) return Attr(TRY(ints()));
    if (take('(')) {
      Strings out;
      while (!take(')')) {
        if (!out.empty()) TRY(expect(','));
        out.push_back(TRY(string()));
      }
      return Attr(std::move(out));
    }
    if (take_word("true")) return Attr(true);
    if (take_word("false")) return Attr(false);
    if (take_word("real")) return Attr(TRY(number<double>()));
    if (take_word("dtype")) return Attr(TRY(dtype()));
    const std::string_view w = peek();
    if (!w.empty() && (w[0] == '-' || (w[0] >= '0' && w[0] <= '9'))) return Attr(TRY(number<int64_t>()));
    return Attr(TRY(tensor()));
  }
  Result<Attrs> attrs() {
    Attrs out;
    TRY(expect('{'));
    while (!take('}')) {
      if (!out.items().empty()) TRY(expect(','));
      const std::string key(TRY(name("an attribute's name")));
      TRY(expect('='));
      out.set(key, TRY(attr()));
    }
    return out;
  }
  Result<uint32_t> percent() {
    TRY(expect('%'));
    return number<uint32_t>();
  }
  Result<Value> value(bool is_effect = false) {
    const uint32_t n = TRY(percent());
    auto found = nodes_.find(n);
    if (found == nodes_.end()) return wrong(cat("a value defined above, not %", n));
    uint32_t index = 0;
    if (at_ < in_.size() && in_[at_] == '#') {
      ++at_;
      index = TRY(number<uint32_t>());
    }
    const size_t count = found->second->types.size();
    if (index >= count && !(is_effect && count == 0 && index == 0)) return wrong(cat("a result that %", n, " has"));
    return Value{found->second, index};
  }
  // What is kept for its effect may have no results.
  Result<std::vector<Value>> values(bool is_effect = false) {
    std::vector<Value> out;
    while (next_is('%')) {
      out.push_back(TRY(value(is_effect)));
      if (!take(',')) break;
    }
    return out;
  }
  Result<void> define(uint32_t n, const Node* node) {
    if (!nodes_.emplace(n, node).second) return wrong(cat("a number not yet used, not %", n));
    return {};
  }
  Result<std::vector<Value>> params() {
    std::vector<Value> out;
    TRY(expect('('));
    while (!take(')')) {
      if (!out.empty()) TRY(expect(','));
      const uint32_t n = TRY(percent());
      TRY(expect(':'));
      out.push_back(g_.parameter(TRY(type())));
      TRY(define(n, out.back().node));
    }
    return out;
  }
  Result<void> body(std::vector<Value>& results, std::vector<Value>& effects, int depth) {
    if (depth > kDepthMax) return wrong(cat("regions nested at most ", kDepthMax, " deep"));
    TRY(expect('{'));
    while (!take_word("return")) {
      if (take_word("keep")) {
        effects = TRY(values(true));
      } else {
        TRY(line(depth));
      }
    }
    results = TRY(values());
    return expect('}');
  }
  Result<OpId> op() {
    skip();
    const size_t before = at_;
    const std::string_view word = TRY(name("an op"));
    if (const auto found = OpId::find(word)) return *found;
    at_ = before;
    return wrong(cat("an op; ", unknown_op(word)));
  }
  Result<void> line(int depth) {
    const uint32_t n = TRY(percent());
    TRY(expect('='));
    Spec spec;
    spec.op = TRY(op());
    if (at_ < in_.size() && in_[at_] == '!') ++at_, spec.is_unique = true;
    spec.inputs = TRY(values());
    if (next_is('{')) spec.attrs = TRY(attrs());
    while (next_is('(')) {
      Region region;
      region.params = TRY(params());
      TRY(body(region.results, region.effects, depth + 1));
      spec.regions.push_back(std::move(region));
    }
    TRY(expect(':'));
    if (take('(')) {
      TRY(expect(')'));
    } else {
      do spec.types.push_back(TRY(type()));
      while (take(','));
    }
    if (take_word("at")) spec.where = g_.add_location(TRY(string()));
    return define(n, g_.add(std::move(spec)));
  }

  std::string_view in_, name_;
  size_t at_ = 0;
  Graph g_;
  std::unordered_map<uint32_t, const Node*> nodes_;
};

}  // namespace

Result<Graph> parse_graph(std::string_view text, std::string_view name) { return Reader(text, name).graph(); }

}  // namespace trine::ir
