// Reads faults; one row per kind says what it takes. See fault.h.
#include "run/faults/fault.h"

#include <charconv>
#include <cmath>

#include "base/text.h"

namespace trine::run {

namespace {

struct Kind {
  std::string_view name, keys, help;
  FaultSort sort;
};
constexpr Kind kKinds[] = {
    {"flip", "core after bit rate seed tensor byte at instructions",
     "flip:at=hbm@0x40,bit=3 · flip:at=sbuf@12/0x40,bit=7,instructions=1000 · flip:tensor=out0,byte=0,bit=30 · "
     "flip:rate=1e-9,seed=1",
     FaultSort::flip},
    {"stuck", "core after semaphore", "stuck:semaphore=3[,core=0]: its updates are lost", FaultSort::stuck},
    {"slow", "core after dma by", "slow:dma=5,by=8: transfers of that DMA engine take so many times as long",
     FaultSort::slow},
    {"throttle", "core after by", "throttle:by=2[,core=0]: its engines take so many times as long",
     FaultSort::throttle},
    {"lost", "core after", "lost:core=1,after=100: gone after so many runs", FaultSort::lost},
    {"ecc", "core after mem_corrected mem_uncorrected sram_corrected sram_uncorrected",
     "ecc:mem_corrected=3 · ecc:mem_uncorrected=1,after=5: events; an uncorrected one fails the run", FaultSort::ecc},
};

Failure bad(std::string_view key, std::string_view value, std::string_view expected) {
  return fail(Code::invalid, cat("fault: found ", key, "=", value, ", expected ", expected));
}

Result<int64_t> whole_of(std::string_view key, std::string_view value, int64_t max) {
  std::string_view digits = value;
  int base = 10;
  if (digits.starts_with("0x")) digits.remove_prefix(2), base = 16;
  int64_t out = 0;
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), out, base);
  if (ec != std::errc{} || end != digits.data() + digits.size() || out < 0 || out > max)
    return bad(key, value, cat("a whole number up to ", max));
  return out;
}

Result<double> real_of(std::string_view key, std::string_view value, double min, double max) {
  double out = 0;
  const auto [end, ec] = std::from_chars(value.data(), value.data() + value.size(), out);
  if (ec != std::errc{} || end != value.data() + value.size() || !(out >= min) || !(out <= max))
    return bad(key, value, cat("a number from ", min, " to ", max));
  return out;
}

// "hbm@0x40", "sbuf@12/0x40"
Result<void> read_address_text(InjectedFault& f, std::string_view value) {
  const size_t at = value.find('@'), slash = value.find('/');
  const std::string_view space = value.substr(0, at);
  if (at == std::string_view::npos || (space != "hbm" && space != "sbuf" && space != "psum"))
    return bad("at", value, "hbm@ADDRESS, sbuf@PARTITION/ADDRESS or psum@PARTITION/ADDRESS");
  f.space = space == "hbm" ? arch::Space::hbm : space == "sbuf" ? arch::Space::sbuf : arch::Space::psum;
  std::string_view address = value.substr(at + 1);
  if (f.space != arch::Space::hbm) {
    if (slash == std::string_view::npos || slash < at) return bad("at", value, "PARTITION/ADDRESS behind the @");
    f.partition = TRY(whole_of("at", value.substr(at + 1, slash - at - 1), 127));
    address = value.substr(slash + 1);
  }
  f.address = TRY(whole_of("at", address, int64_t{1} << 40));
  return {};
}

Result<void> read_key(InjectedFault& f, std::string_view key, std::string_view value) {
  constexpr int64_t kMany = int64_t{1} << 40;
  if (key == "core") return f.core = TRY(whole_of(key, value, 65535)), Result<void>();
  if (key == "after") return f.after = TRY(whole_of(key, value, kMany)), Result<void>();
  if (key == "bit") return f.bit = TRY(whole_of(key, value, 63)), Result<void>();
  if (key == "rate") return f.rate = TRY(real_of(key, value, 1e-18, 1)), Result<void>();
  if (key == "seed") return f.seed = uint64_t(TRY(whole_of(key, value, kMany))), Result<void>();
  if (key == "byte") return f.address = TRY(whole_of(key, value, kMany)), Result<void>();
  if (key == "instructions") return f.instructions = TRY(whole_of(key, value, kMany)), Result<void>();
  if (key == "semaphore") return f.semaphore = TRY(whole_of(key, value, 65535)), Result<void>();
  if (key == "dma") return f.engine = TRY(whole_of(key, value, 63)), Result<void>();
  if (key == "by") return f.by = TRY(real_of(key, value, 1, 1e6)), Result<void>();
  if (key == "at") return read_address_text(f, value);
  if (key == "tensor") return f.tensor = std::string(value), Result<void>();
  constexpr std::string_view kEvents[] = {"mem_corrected", "mem_uncorrected", "sram_corrected", "sram_uncorrected"};
  for (size_t e = 0; e < std::size(kEvents); ++e)
    if (key == kEvents[e]) {
      f.ecc = PageEcc(e);
      f.count = TRY(whole_of(key, value, kMany));
    }
  return {};
}

Result<InjectedFault> parse_one(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const Kind* kind = nullptr;
  std::vector<std::string> names;
  for (const Kind& k : kKinds) {
    names.emplace_back(k.name);
    if (k.name == name) kind = &k;
  }
  if (!kind) return fail(Code::invalid, cat("fault: found \"", name, "\", expected ", join(names, ", ")));
  InjectedFault out{.sort = kind->sort, .text = std::string(text)};
  const std::string_view rest = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  for (const std::string_view pair : rest.empty() ? std::vector<std::string_view>() : split(rest, ',')) {
    const size_t eq = pair.find('=');
    const std::string_view key = trim(pair.substr(0, eq));
    bool is_known = false;
    for (const std::string_view k : split(kind->keys, ' ')) is_known |= k == key;
    if (eq == std::string_view::npos || !is_known)
      return fail(Code::invalid, cat("fault: found \"", pair, "\" of ", name, ", expected key=value of: ", kind->keys));
    TRY(read_key(out, key, trim(pair.substr(eq + 1))));
  }
  if (out.sort == FaultSort::ecc && out.count == 0)
    return fail(Code::invalid, "fault: ecc without events, for example ecc:mem_corrected=3");
  return out;
}

}  // namespace

Result<Faults> parse_faults(std::string_view text) {
  Faults out;
  for (const std::string_view part : split(text, ';')) {
    if (trim(part).empty()) continue;
    if (out.size() >= 256) return fail(Code::invalid, "fault: more than 256");
    out.push_back(TRY(parse_one(trim(part))));
  }
  return out;
}

std::string faults_help() {
  std::string out;
  for (const Kind& k : kKinds) out += cat("  ", k.help, "\n");
  return out;
}

std::string time_faults(const Faults& faults) {
  std::string out;
  for (const InjectedFault& f : faults)
    if (f.sort == FaultSort::slow || f.sort == FaultSort::throttle) out += cat(out.empty() ? "" : ";", f.text);
  return out;
}

}  // namespace trine::run
