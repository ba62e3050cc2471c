// Headers in and out; see safetensors.h. Nothing of a header is believed before it is held against the file.
#include "base/format/safetensors.h"

#include <algorithm>
#include <cstring>

#include "base/format/json.h"
#include "base/text.h"

namespace trine {

namespace {

constexpr std::pair<std::string_view, Dtype> kNames[] = {
    {"BOOL", Dtype::boolean},  {"U8", Dtype::u8},     {"I8", Dtype::s8},
    {"U16", Dtype::u16},       {"I16", Dtype::s16},   {"U32", Dtype::u32},
    {"I32", Dtype::s32},       {"U64", Dtype::u64},   {"I64", Dtype::s64},
    {"F16", Dtype::f16},       {"BF16", Dtype::bf16}, {"F32", Dtype::f32},
    {"F64", Dtype::f64},       {"C64", Dtype::c64},   {"F8_E4M3", Dtype::f8e4m3fn},
    {"F8_E5M2", Dtype::f8e5m2}};
constexpr size_t kHeaderMax = 100'000'000;  // the format's own limit

}  // namespace

Result<std::string> write_safetensors(std::span<const NamedTensor> tensors) {
  Json header = Json::object();
  int64_t at = 0;
  for (const NamedTensor& t : tensors) {
    const auto* const found =
        std::find_if(std::begin(kNames), std::end(kNames), [&](auto& n) { return n.second == t.tensor.dtype; });
    if (found == std::end(kNames))
      return fail(Code::unsupported, cat("safetensors has no format for ", row(t.tensor.dtype).name), t.name);
    Json shape = Json::array();
    for (int64_t d : t.tensor.dims) shape.push(d);
    const auto end = at + int64_t(t.tensor.bytes());
    header.set(t.name, Json::object()
                           .set("dtype", found->first)
                           .set("shape", shape)
                           .set("data_offsets", Json::array().push(at).push(end)));
    at = end;
  }
  std::string text = header.text();
  text.resize((text.size() + 8 + 63) / 64 * 64 - 8, ' ');  // data begin at a multiple of 64
  uint64_t size = text.size();
  std::string out(reinterpret_cast<const char*>(&size), 8);
  out += text;
  out.reserve(out.size() + size_t(at));
  for (const NamedTensor& t : tensors) out.append(t.tensor.as<const char>(), t.tensor.bytes());
  return out;
}

Result<std::vector<NamedTensor>> read_safetensors(std::span<const std::byte> file, std::string_view name) {
  const auto wrong = [&](std::string what) {
    return fail(Code::invalid, cat("not a sound safetensors file: ", what), std::string(name));
  };
  uint64_t size = 0;
  if (file.size() < 8) return wrong("it has no header");
  std::memcpy(&size, file.data(), 8);
  if (size > kHeaderMax || size > file.size() - 8) return wrong(cat("a header of ", size, " bytes"));
  const Json header = TRY(parse_json({reinterpret_cast<const char*>(file.data()) + 8, size_t(size)}, name));
  const auto data = file.subspan(8 + size_t(size));
  std::vector<NamedTensor> out;
  for (const auto& [tensor, about] : header.members()) {
    if (tensor == "__metadata__") continue;
    const Json *dtype = about.find("dtype"), *shape = about.find("shape"), *ends = about.find("data_offsets");
    const auto* const found = std::find_if(std::begin(kNames), std::end(kNames),
                                           [&](auto& n) { return dtype && n.first == dtype->string(); });
    if (found == std::end(kNames)) return wrong(cat(tensor, " is of no known format"));
    if (!shape || !ends || ends->items().size() != 2) return wrong(cat(tensor, " has no shape or place"));
    NamedTensor one{tensor, {.dtype = found->second}};
    __int128 bytes = trine::bytes(found->second);
    for (const Json& d : shape->items()) {
      if (d.integer() < 0 || bytes > (int64_t{1} << 50)) return wrong(cat(tensor, " has a dim of ", d.integer()));
      one.tensor.dims.push_back(d.integer());
      bytes *= d.integer();
    }
    const int64_t begin = ends->items()[0].integer(), end = ends->items()[1].integer();
    if (begin < 0 || end < begin || uint64_t(end) > data.size() || __int128(end - begin) != bytes)
      return wrong(cat(tensor, " lies at ", begin, " to ", end));
    one.tensor.data = const_cast<std::byte*>(data.data()) + begin;
    out.push_back(std::move(one));
  }
  std::sort(out.begin(), out.end(),
            [](const NamedTensor& a, const NamedTensor& b) { return a.tensor.data < b.tensor.data; });
  return out;
}

}  // namespace trine
