// Annotations of GSPMD, XLA's partitioner before Shardy, as Shardy's: a tile assignment is a mesh whose axes are the
// dims it counts devices by. Parts that are manual over some devices only are not read.
#include "front/stablehlo/graph/gspmd.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/text.h"

namespace trine::front::stablehlo {

namespace {

// {devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}, or with the devices one by one: {devices=[2,2]0,2,1,3}
struct Tiles {
  Dims tiles = {}, counted = {};               // parts per dim; the dims in which devices are counted
  std::vector<int64_t> axes = {}, order = {};  // which of `counted` comes first; or every device
  size_t data = 0;                             // tiles of the tensor's own dims; what is behind them is whole
};

Error unreadable(std::string_view text) {
  return fail(Code::unsupported, cat("the sharding ", text, " of GSPMD; tiles over all devices were expected"));
}

// "2,1]": up to `end`, which goes as well.
bool read_list(std::string_view& from, std::string_view end, std::vector<int64_t>& out) {
  const size_t stop = end.empty() ? std::min(from.find_first_of(" }"), from.size()) : from.find(end);
  if (stop == std::string_view::npos) return false;
  for (const std::string_view word : split(from.substr(0, stop), ',')) {
    int64_t n = -1;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), n);
    if (read.ec != std::errc{} || read.ptr != word.data() + word.size() || n < 0) return false;
    out.push_back(n);
  }
  from.remove_prefix(stop + end.size());
  return true;
}

bool eat(std::string_view& from, std::string_view word) {
  if (!from.starts_with(word)) return false;
  from.remove_prefix(word.size());
  return true;
}

bool covers(const Dims& dims, int64_t devices) {
  int64_t product = 1;
  for (int64_t d : dims)
    if (d < 1 || (product *= d) > devices) return false;
  return product == devices;
}

bool read_tiles(std::string_view text, int64_t devices, Tiles& out) {
  std::vector<int64_t> tiles, counted;
  if (!eat(text, "{devices=[") || !read_list(text, "]", tiles)) return false;
  if (eat(text, "<=[")) {
    if (!read_list(text, "]", counted)) return false;
    if (eat(text, "T(") && !read_list(text, ")", out.axes)) return false;
  } else {
    if (!read_list(text, "", out.order)) return false;
    counted = tiles;
  }
  if (out.axes.empty()) {
    out.axes.resize(counted.size());
    std::iota(out.axes.begin(), out.axes.end(), 0);
  }
  std::vector<int64_t> sorted = out.order.empty() ? out.axes : out.order;
  std::sort(sorted.begin(), sorted.end());
  const size_t count = out.order.empty() ? counted.size() : size_t(devices);
  if (sorted.size() != count) return false;
  for (size_t i = 0; i < count; ++i)
    if (sorted[i] != int64_t(i)) return false;
  if (std::is_sorted(out.order.begin(), out.order.end())) out.order.clear();
  out.tiles = Dims(tiles.begin(), tiles.end());
  out.counted = Dims(counted.begin(), counted.end());
  const bool is_last_whole = eat(text, " last_tile_dim_replicate") || eat(text, " last_tile_dims={replicated}");
  out.data = tiles.size() - (is_last_whole && !tiles.empty());
  return text == "}" && covers(out.tiles, devices) && covers(out.counted, devices);
}

// Counts devices in parts of its dims, so that each tile is of whole ones.
bool refine(Tiles& tiles) {
  std::vector<std::vector<int64_t>> parts(tiles.counted.size());
  size_t at = 0;
  int64_t left = 1;  // of the dim axes[at - 1]
  for (int64_t size : tiles.tiles)
    while (size > 1) {
      while (left == 1) {
        if (at == tiles.axes.size()) return false;
        left = tiles.counted[size_t(tiles.axes[at++])];
      }
      const int64_t take = std::gcd(size, left);
      if (take != size && take != left) return false;
      parts[size_t(tiles.axes[at - 1])].push_back(take);
      size /= take;
      left /= take;
    }
  Dims counted;
  std::vector<std::vector<int64_t>> numbers(parts.size());
  for (size_t i = 0; i < parts.size(); ++i)
    for (int64_t part : parts[i]) {
      numbers[i].push_back(int64_t(counted.size()));
      counted.push_back(part);
    }
  std::vector<int64_t> axes;
  for (int64_t i : tiles.axes) axes.insert(axes.end(), numbers[size_t(i)].begin(), numbers[size_t(i)].end());
  tiles.counted = std::move(counted);
  tiles.axes = std::move(axes);
  return true;
}

}  // namespace

std::string GspmdMeshes::mesh_of(const Dims& counted, const std::vector<int64_t>& order) {
  std::string axes, ids;
  for (size_t i = 0; i < counted.size(); ++i) axes += cat(i ? ", " : "", "\"", axis(counted, i), "\"=", counted[i]);
  for (int64_t device : order) ids += cat(ids.empty() ? "" : ", ", device);
  const std::string made = cat("#sdy.mesh<[", axes, "]", ids.empty() ? "" : cat(", device_ids=[", ids, "]"), ">");
  for (const std::string& mesh : meshes_)
    if (mesh.ends_with(cat(" = ", made))) return mesh.substr(0, mesh.find(" = "));
  meshes_.push_back(cat("gspmd_", meshes_.size(), " = ", made));
  return cat("gspmd_", meshes_.size() - 1);
}

// One name for axes that are the same digits of the device's number.
std::string GspmdMeshes::axis(const Dims& counted, size_t i) {
  int64_t stride = 1;
  for (size_t d = i + 1; d < counted.size(); ++d) stride *= counted[d];
  return cat("gspmd_", counted[i], "_", stride);
}

Result<std::string> GspmdMeshes::convert(std::string_view text, size_t rank, std::string_view config) {
  Tiles tiles;
  const bool is_whole = text == "{replicated}" || text.starts_with("{maximal");
  if (is_whole)
    tiles = {.tiles = {devices_}, .counted = {devices_}, .axes = {0}};
  else if (!read_tiles(text, devices_, tiles) || !refine(tiles))
    return unreadable(text);
  std::vector<int64_t> open;
  const bool is_open = eat(config, "unspecified_dims=[") && !config.starts_with(']');
  if (tiles.data > rank || (is_open && !read_list(config, "]", open))) return unreadable(text);
  std::string dims;
  for (size_t d = 0, at = 0; d < rank; ++d) {
    std::string axes;
    for (int64_t parts = d < tiles.data ? tiles.tiles[d] : 1; parts > 1; ++at) {
      const auto digit = size_t(tiles.axes[at]);
      axes += cat(axes.empty() ? "" : ", ", "\"", axis(tiles.counted, digit), "\"");
      parts /= tiles.counted[digit];
    }
    if (std::find(open.begin(), open.end(), int64_t(d)) != open.end()) axes += axes.empty() ? "?" : ", ?";
    dims += cat(d ? ", " : "", "{", axes, "}");
  }
  const std::string out = cat("#sdy.sharding<@", mesh_of(tiles.counted, tiles.order), ", [", dims, "]>");
  ir::Strings& axes = axes_[out];
  if (axes.empty())
    for (size_t i = 0; i < tiles.counted.size(); ++i) axes.push_back(axis(tiles.counted, i));
  return out;
}

}  // namespace trine::front::stablehlo
