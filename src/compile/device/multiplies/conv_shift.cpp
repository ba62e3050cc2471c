// Bands of padded images, panels of weights and the multiplies between them; see conv_shift.h.
#include "compile/device/multiplies/conv_shift.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "compile/device/loops/map.h"
#include "compile/device/memory/transpose.h"
#include "compile/device/multiplies/dot.h"
#include "compile/thresholds.h"
#include "ops/network/convolution_shape.h"

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::convolution;

class Shifted : public Product {
 public:
  Shifted(Recorder& rec, Store& store, const ir::Node& conv, const DotPolicy& policy)
      : rec_(rec), store_(store), lanes_(rec.chip().partitions) {
    const Dims &x = conv.inputs[0].type().dims, &k = conv.inputs[1].type().dims, &y = conv.types[0].dims;
    const auto shape = ops::ConvolutionShape::from(conv.attrs, x, k);
    CHECK(shape, "a convolution's own type rule");
    const auto at = [](const Dims& list, int64_t d) { return list[size_t(d)]; };
    in_ = &store.made(conv.inputs[0]);
    const Side side = side_of(store, conv.inputs[1]);  // a kernel that is read backwards is no copy of it
    weights_ = side.memory;
    k_first_ = side.walk.offset;
    out_ = &store.of(conv.result());
    dtype_ = policy.cast.value_or(in_->dtype == weights_->dtype ? in_->dtype : Dtype::f32);
    images_ = at(x, shape->input_batch), channels_ = at(x, shape->input_feature);
    features_ = at(k, shape->kernel_output_feature);
    apart_ = shape->feature_groups > 1;
    last_in_ = shape->input_feature == 3, last_out_ = shape->output_feature == 3;
    const Dims& ks = side.walk.strides;
    for (size_t s = 0; s < 2; ++s) {
      windows_[s] = shape->windows[s];
      size_[s] = at(x, shape->input_spatial[s]), made_[s] = at(y, shape->output_spatial[s]);
      padded_[s] = size_[s] + windows_[s].low + windows_[s].high;
      tap_[s] = at(ks, shape->kernel_spatial[s]);
    }
    k_in_ = at(ks, shape->kernel_input_feature), k_out_ = at(ks, shape->kernel_output_feature);
    chunks_ = (channels_ + lanes_ - 1) / lanes_;
  }

  void run() {
    allocate_output();
    begin(1, 1);
    for (int64_t n = 0; n < images_; n += together_)
      for (int64_t top = 0; top < made_[0]; top += band_) {
        const int64_t count = std::min(together_, images_ - n), high = std::min(band_, made_[0] - top);
        const Band b = bring(n, count, top, high);
        for (int64_t f = 0; f < features_; f += width_)
          multiply(b, apart_ ? diagonal(f) : panel(f), f, n, count, top, high);
      }
  }

  // Its features are minor, and on partitions.
  bool is_product() const { return last_out_; }
  bool is_transposed() const override { return true; }
  int64_t block_columns() const override { return whole_.images * whole_.rows * whole_.columns; }
  bool holds(int64_t part, int64_t free, int64_t, bool) const override {
    return part == std::min(lanes_, features_) && free == block_columns();
  }
  int64_t panel_rows() const override { return together_ * band_ * made_[1]; }
  View block(int64_t e0, const Axes& part, const Axes& free) override {
    const int64_t feature = e0 % features_, at = e0 / features_, pixels = made_[0] * made_[1];
    const int64_t n = at / pixels, y = at % pixels / made_[1], first = feature / width_ * width_;
    const int64_t from = n / together_ * together_, top = y / band_ * band_;
    if (from != in_hand_[0] || top != in_hand_[1]) {
      in_hand_ = {from, top};
      brought_ = bring(from, std::min(together_, images_ - from), top, std::min(band_, made_[0] - top));
    }
    Block b = whole_;
    b.image = n - from, b.row = y - top, b.column = at % made_[1];
    b.images = std::min(b.images, count_of(free) / (b.rows * b.columns));
    const View& weights = apart_ ? diagonal(first) : panel(first);
    return accumulate(brought_, weights, feature - first, count_of(part), std::min(width_, features_ - first), b,
                      apart_ ? first / lanes_ : -1);
  }
  // To be asked for blocks; nothing is brought in or laid out before the first.
  void prepare() {
    const int64_t most = rec_.columns_max(), pixels = made_[0] * made_[1];
    const auto even = [](int64_t count, int64_t limit) {  // the largest part of it
      int64_t part = std::clamp<int64_t>(limit, 1, count);
      while (count % part) --part;
      return part;
    };
    whole_.columns = even(made_[1], most);
    whole_.rows = whole_.columns < made_[1] ? 1 : even(made_[0], most / made_[1]);
    whole_.images = whole_.rows < made_[0] ? 1 : even(images_, most / pixels);
    begin(whole_.images, whole_.rows);
  }

 private:
  // Of the output.
  struct Block {
    int64_t image = 0, images = 1, row = 0, rows = 1, column = 0, columns = 1;
  };
  // Padded rows of some images, a tile for each chunk of channels: [channel, image, row, column].
  struct Band {
    std::vector<View> tiles = {};
    int64_t rows = 0, first = 0;  // the first in the padded image
  };

  // How much of the input is in hand at once: whole multiples of so many images and rows of the output.
  void begin(int64_t images, int64_t rows) {
    const int64_t taps = windows_[0].size * windows_[1].size;
    const int64_t each = taps * chunks_ * bytes(dtype_);
    width_ =
        std::clamp(tuned::kPanelBytes / each / lanes_ * lanes_, lanes_, (features_ + lanes_ - 1) / lanes_ * lanes_);
    if (apart_) width_ = lanes_;
    const int64_t row = chunks_ * padded_[1] * bytes(dtype_);
    const int64_t most = std::max<int64_t>(tuned::kBandBytes / row, reach(0) + 1);  // rows of all images
    together_ = std::clamp<int64_t>(most / padded_[0], 1, images_);
    together_ = std::max(images, together_ / images * images);
    band_ = together_ > 1 || padded_[0] <= most ? made_[0]
                                                : std::max<int64_t>(1, (most - reach(0) - 1) / windows_[0].stride + 1);
    band_ = std::max(rows, band_ / rows * rows);
  }

  // Rows or columns between the first and the last tap.
  int64_t reach(int s) const { return (windows_[size_t(s)].size - 1) * windows_[size_t(s)].window_dilation; }
  int64_t lanes_of(int64_t chunk) const { return std::min(lanes_, channels_ - chunk * lanes_); }

  // --- input ---

  Band bring(int64_t n, int64_t count, int64_t top, int64_t high) {
    Band b;
    b.first = top * windows_[0].stride;
    b.rows = (high - 1) * windows_[0].stride + reach(0) + 1;
    const int64_t from = std::max<int64_t>(b.first - windows_[0].low, 0);
    const int64_t to = std::min(b.first + b.rows - windows_[0].low, size_[0]);
    const Form* const form = whole_form();
    const bool has_edge = padded_[0] != size_[0] || padded_[1] != size_[1];
    for (int64_t c = 0; c < chunks_; ++c) {
      b.tiles.push_back(rec_.sbuf(dtype_, lanes_of(c), count * b.rows * padded_[1], "padded"));
      if (has_edge) rec_.emit("memset", {{"dst", b.tiles.back()}}, {{"value", 0.0}});
    }
    for (int64_t i = 0; i < count && to > from; ++i) {
      if (form)
        copy(*form, b, n + i, i, from, to);
      else if (last_in_)
        transpose(b, n + i, i, from, to);
      else
        load(b, n + i, i, from, to);
    }
    return b;
  }
  // Where input rows from `row` on lie in a band's tile.
  View inside(const Band& b, int64_t chunk, int64_t image, int64_t row, int64_t rows) const {
    View v = b.tiles[size_t(chunk)];
    v.offset = (image * b.rows + row + windows_[0].low - b.first) * padded_[1] + windows_[1].low;
    v.axes = padded_[1] == size_[1] ? Axes{{1, rows * size_[1]}} : Axes{{padded_[1], rows}, {1, size_[1]}};
    return v;
  }
  // All of the input with channels on partitions, where it is there or small enough.
  const Form* whole_form() {
    const int64_t pixels = size_[0] * size_[1];
    const int64_t columns = last_in_ ? channels_ : pixels;
    const Tiling tiling = last_in_ ? Tiling::plain(channels_, lanes_)
                                   : Tiling{images_ * channels_, channels_, std::min(channels_, lanes_)};
    for (const Form& f : in_->forms)
      if (f.transposed == last_in_ && f.columns == columns && f.tiling.same(tiling)) return &f;
    if (images_ * pixels * chunks_ * bytes(in_->dtype) > store_.keep_bytes()) return nullptr;
    return &store_.form(*in_, in_->dtype, last_in_, columns, tiling);
  }
  void copy(const Form& form, const Band& b, int64_t n, int64_t image, int64_t from, int64_t to) {
    const int64_t pixels = size_[0] * size_[1];
    for (int64_t c = 0; c < chunks_; ++c) {
      View src = form.tile(last_in_ ? c : n * chunks_ + c);
      src.offset = (last_in_ ? n * pixels : 0) + from * size_[1];
      const View dst = inside(b, c, image, from, to - from);
      src.axes = {{1, (to - from) * size_[1]}};
      if (dst.axes.size() > 1) src.axes = {{size_[1], to - from}, {1, size_[1]}};
      emit_copy(rec_, dst, Val::tile(src));
    }
  }
  // Channels lie densely in HBM: rows of pixels are brought in and transposed.
  void transpose(const Band& b, int64_t n, int64_t image, int64_t from, int64_t to) {
    const uint32_t hbm = store_.hbm(*in_);
    if (load_transposed(b, hbm, n, image, from, to)) return;
    const int64_t together = std::max<int64_t>(1, lanes_ / size_[1]);
    for (int64_t row = from; row < to; row += together)
      for (int64_t x = 0; x < size_[1]; x += lanes_) {
        const int64_t rows = std::min(together, to - row), wide = std::min(lanes_, size_[1] - x), pixels = rows * wide;
        View raw = rec_.sbuf(in_->dtype, pixels, channels_, "rows"), cast = raw;
        store_.load(raw, hbm, in_->dtype, ((n * size_[0] + row) * size_[1] + x) * channels_, {{channels_, pixels}},
                    {{1, channels_}});
        if (in_->dtype != dtype_) {
          cast = rec_.sbuf(dtype_, pixels, channels_, "rows");
          emit_copy(rec_, cast, Val::tile(raw));
        }
        for (int64_t c = 0; c < chunks_; ++c) {
          View data = cast, dst = inside(b, c, image, row, rows);
          data.offset = c * lanes_;
          data.axes = {{1, lanes_of(c)}};
          dst.offset += x;
          dst.axes = rows > 1 ? Axes{{padded_[1], rows}, {1, wide}} : Axes{{1, wide}};
          emit_transpose(rec_, store_.choice.transpose_engine, dst, {&data, 1});
        }
      }
  }
  bool load_transposed(const Band& b, uint32_t hbm, int64_t n, int64_t image, int64_t from, int64_t to) {
    if (transpose_engine_of(rec_.chip(), store_.choice.transpose_engine, in_->dtype) != TransposeEngine::dma ||
        in_->elsewhere)
      return false;
    const int64_t pixels = (to - from) * size_[1];
    for (int64_t c = 0; c < chunks_; ++c) {
      const View dst = inside(b, c, image, from, to - from);
      const View raw = in_->dtype == dtype_ ? dst : rec_.sbuf(in_->dtype, lanes_of(c), pixels, "raw");
      const int64_t e0 = (n * size_[0] + from) * size_[1] * channels_ + c * lanes_;
      if (!device::load_transposed(rec_, TransposeEngine::dma, raw, {hbm, in_->dtype, e0, {channels_, pixels}}))
        return false;
      View src = raw;
      if (dst.axes.size() > 1) src.axes = {{size_[1], to - from}, {1, size_[1]}};
      if (raw.tensor != dst.tensor) emit_copy(rec_, dst, Val::tile(src));
    }
    return true;
  }
  // Pixels lie densely in HBM: a row of partitions is a channel's rows.
  void load(const Band& b, int64_t n, int64_t image, int64_t from, int64_t to) {
    const uint32_t hbm = store_.hbm(*in_);
    const int64_t pixels = size_[0] * size_[1], count = (to - from) * size_[1];
    for (int64_t c = 0; c < chunks_; ++c) {
      const View raw = rec_.sbuf(in_->dtype, lanes_of(c), count, "rows");
      store_.load(raw, hbm, in_->dtype, (n * channels_ + c * lanes_) * pixels + from * size_[1],
                  {{pixels, lanes_of(c)}}, {{1, count}});
      const View dst = inside(b, c, image, from, to - from);
      View src = raw;
      if (dst.axes.size() > 1) src.axes = {{size_[1], to - from}, {1, size_[1]}};
      emit_copy(rec_, dst, Val::tile(src));
    }
  }

  // --- weights: [panel, channel of a chunk, tap and chunk, feature of the panel] ---

  void lay_out() {
    if (weights_->input < 0 || weights_->hbm >= 0 || k_out_ <= 0 || k_first_) return;
    each_ = features_ % width_ ? features_ : width_;
    PanelLayout p{.column = {k_out_, each_}, .lanes = std::min(lanes_, channels_)};
    if (each_ < features_) p.batch = {{k_out_ * each_, features_ / each_}};
    p.depth = {{tap_[0], windows_[0].size}, {tap_[1], windows_[1].size}, {k_in_, channels_}};
    p.chunks = windows_[0].size * windows_[1].size * chunks_;
    weights_->dtype = dtype_;
    weights_->hbm = rec_.hbm(cat("arg", weights_->input), dtype_, {p.batches() * p.lanes, p.chunks * each_},
                             arch::TensorKind::input);
    weights_->panels = std::move(p);
    weights_->panel_owner = this;
  }
  const View& panel(int64_t first) {
    if (panel_first_ == first) return panel_;
    if (panel_first_ < 0) lay_out();
    const int64_t wide = std::min(width_, features_ - first), parts = windows_[0].size * windows_[1].size * chunks_;
    panel_first_ = first;
    panel_ = rec_.sbuf(dtype_, std::min(lanes_, channels_), parts * wide, "weights");
    if (weights_->panel_owner == this) {
      const int64_t row = parts * each_, lanes = panel_.partitions;
      store_.load(panel_, uint32_t(weights_->hbm), dtype_, first / each_ * lanes * row + first % each_, {{row, lanes}},
                  {{each_, parts}, {1, wide}});
      return panel_;
    }
    if (k_in_ == 1 && k_out_ != 1 && channels_ > 1) {
      for (int64_t tap = 0; tap < parts / chunks_; ++tap)
        for (int64_t f = 0; f < wide; f += lanes_) transpose_weights(tap, first, f, wide);
      return panel_;
    }
    const uint32_t hbm = store_.hbm(*weights_);
    const View raw =
        weights_->dtype == dtype_ ? panel_ : rec_.sbuf(weights_->dtype, panel_.partitions, parts * wide, "raw");
    // All chunks of a tap at once where each fills the partitions: few large transfers.
    const int64_t together = channels_ % lanes_ ? 1 : chunks_;
    for (int64_t i = 0; i < parts; i += together) {
      const int64_t c = i % chunks_;
      View dst = raw;
      dst.partitions = int(lanes_of(c));
      dst.offset = i * wide;
      dst.axes = {{1, together * wide}};
      store_.load(dst, hbm, weights_->dtype, tap_at(i / chunks_) + c * lanes_ * k_in_ + first * k_out_,
                  {{k_in_, dst.partitions}}, {{lanes_ * k_in_, together}, {k_out_, wide}});
      View to = dst;
      to.tensor = panel_.tensor, to.dtype = dtype_;
      if (raw.tensor != panel_.tensor) emit_copy(rec_, to, Val::tile(dst));
    }
    return panel_;
  }

  // Each channel by itself: its weight on the diagonal, at every tap.
  const View& diagonal(int64_t first) {
    if (panel_first_ == first) return panel_;
    const int64_t wide = std::min(lanes_, features_ - first), taps = windows_[0].size * windows_[1].size;
    if (diagonal_.axes.empty()) {
      diagonal_ = rec_.sbuf(Dtype::s32, lanes_, lanes_, "diagonal");
      rec_.emit_iota(diagonal_, {1, lanes_}, 0, -1);
    }
    View& each = columns_[first];
    if (each.axes.empty()) {
      const View raw = rec_.sbuf(weights_->dtype, wide, taps, "weights");
      store_.load(raw, store_.hbm(*weights_), weights_->dtype, k_first_ + first * k_out_, {{k_out_, wide}},
                  {{tap_[0], windows_[0].size}, {tap_[1], windows_[1].size}});
      each = weights_->dtype == Dtype::f32 ? raw : rec_.sbuf(Dtype::f32, wide, taps, "weights");
      if (each.tensor != raw.tensor) emit_copy(rec_, each, Val::tile(raw));
    }
    panel_first_ = first;
    panel_ = rec_.sbuf(dtype_, wide, taps * wide, "weights");
    for (int64_t tap = 0; tap < taps; ++tap) {
      View dst = panel_, from = diagonal_, weight = each;
      dst.offset = tap * wide, from.partitions = int(wide), weight.offset = tap;
      dst.axes = from.axes = {{1, wide}}, weight.axes = {{1, 1}};
      rec_.emit("tensor_scalar", {{"dst", dst}, {"data", from}, {"operand0", 0.0}, {"operand1", weight}},
                {{"op0", std::string_view("equal")}, {"op1", std::string_view("multiply")}}, arch::kVector);
    }
    return panel_;
  }

  int64_t tap_at(int64_t tap) const {
    return k_first_ + tap / windows_[1].size * tap_[0] + tap % windows_[1].size * tap_[1];
  }
  // Channels lie densely, as where a gradient goes back through the layer: rows of features are brought in and
  // transposed.
  void transpose_weights(int64_t tap, int64_t first, int64_t f, int64_t wide) {
    const int64_t tall = std::min(lanes_, wide - f), e0 = tap_at(tap) + (first + f) * k_out_;
    const uint32_t hbm = store_.hbm(*weights_);
    const auto to = [&](int64_t c) {
      View dst = panel_;
      dst.partitions = int(lanes_of(c));
      dst.offset = (tap * chunks_ + c) * wide + f;
      dst.axes = {{1, tall}};
      return dst;
    };
    int64_t done = 0;  // chunks that were transposed on their way
    const auto rows = [&] { return HbmRows{hbm, weights_->dtype, e0 + done * lanes_, {k_out_, tall}}; };
    while (done < chunks_ && device::load_transposed(rec_, store_.choice.transpose_engine, to(done), rows())) ++done;
    if (done == chunks_) return;
    View raw = rec_.sbuf(weights_->dtype, tall, channels_, "rows"), cast = raw;
    store_.load(raw, hbm, weights_->dtype, e0, {{k_out_, tall}}, {{1, channels_}});
    if (weights_->dtype != dtype_) {
      cast = rec_.sbuf(dtype_, tall, channels_, "rows");
      emit_copy(rec_, cast, Val::tile(raw));
    }
    for (int64_t c = 0; c < chunks_; ++c) {
      View data = cast;
      data.offset = c * lanes_;
      data.axes = {{1, lanes_of(c)}};
      emit_transpose(rec_, store_.choice.transpose_engine, to(c), {&data, 1});
    }
  }

  // --- output ---

  void allocate_output() {
    const int64_t pixels = made_[0] * made_[1];
    const Tiling tiling = last_out_ ? Tiling::plain(features_, lanes_)
                                    : Tiling{images_ * features_, features_, std::min(features_, lanes_)};
    const int64_t free = last_out_ ? images_ * pixels : pixels;
    if (free * bytes(out_->dtype) * tiling.tiles() <= store_.keep_bytes())
      form_ = &store_.new_form(*out_, out_->dtype, last_out_, last_out_ ? features_ : pixels, tiling);
    else
      store_.keep_in_hbm(*out_, "", arch::TensorKind::scratch);
  }
  int64_t tap_of(int s, int64_t i) const {
    const ops::WindowDim& w = windows_[size_t(s)];
    return (w.is_reversed ? w.size - 1 - i : i) * w.window_dilation;
  }

  void multiply(const Band& b, const View& weights, int64_t feature, int64_t n, int64_t count, int64_t top,
                int64_t high) {
    const int64_t wide = std::min(width_, features_ - feature), most = rec_.columns_max(), pixels = high * made_[1];
    const int64_t images = high == made_[0] ? std::clamp<int64_t>(most / pixels, 1, count) : 1;
    const int64_t across = std::min(made_[1], most);
    const int64_t rows = images > 1 ? high : std::clamp<int64_t>(most / across, 1, high);
    for (int64_t f = 0; f < wide; f += lanes_)
      for (int64_t i = 0; i < count; i += images)
        for (int64_t r = 0; r < high; r += rows)
          for (int64_t x = 0; x < made_[1]; x += across) {
            const Block at{i, std::min(images, count - i),   r, std::min(rows, high - r),
                           x, std::min(across, made_[1] - x)};
            const int64_t tall = std::min(lanes_, wide - f);
            const int64_t only = apart_ ? feature / lanes_ : -1;
            put(accumulate(b, weights, f, tall, wide, at, only), feature + f, tall, n, top, at);
          }
  }
  // only: the one chunk of channels that counts, or -1.
  View accumulate(const Band& b, const View& weights, int64_t f, int64_t tall, int64_t wide, const Block& at,
                  int64_t only) {
    const View acc = rec_.psum(tall, at.images * at.rows * at.columns);
    bool begun = false;
    for (int64_t ky = 0; ky < windows_[0].size; ++ky)
      for (int64_t kx = 0; kx < windows_[1].size; ++kx)
        for (int64_t c = std::max<int64_t>(only, 0); c < (only < 0 ? chunks_ : only + 1); ++c) {
          View still = weights, moving = b.tiles[size_t(c)];
          const int64_t tap = ky * windows_[1].size + kx;
          still.partitions = int(lanes_of(c));
          still.offset = (only < 0 ? tap * chunks_ + c : tap) * wide + f;
          still.axes = {{1, tall}};
          moving.offset = (at.image * b.rows + at.row * windows_[0].stride + tap_of(0, ky)) * padded_[1] +
                          at.column * windows_[1].stride + tap_of(1, kx);
          moving.axes = {{b.rows * padded_[1], at.images},
                         {padded_[1] * windows_[0].stride, at.rows},
                         {windows_[1].stride, at.columns}};
          moving.axes = collapse(moving.axes);
          rec_.emit("nc_matmul", {{"dst", acc}, {"stationary", still}, {"moving", moving}},
                    {{"accumulate", std::string_view(begun ? "add" : "overwrite")}});
          begun = true;
        }
    return acc;
  }
  // Blocks are whole rows of pixels, or one part of a row.
  void put(const View& acc, int64_t feature, int64_t tall, int64_t n, int64_t top, const Block& at) {
    const int64_t pixels = made_[0] * made_[1], count = at.images * at.rows * at.columns;
    const int64_t pixel = (top + at.row) * made_[1] + at.column;
    if (!last_out_) {
      for (int64_t i = 0; i < at.images; ++i) {
        View part = acc;
        part.offset = i * at.rows * at.columns;
        part.axes = {{1, at.rows * at.columns}};
        put_dense(part, ((n + at.image + i) * features_ + feature) * pixels + pixel, tall, pixels, 1);
      }
      return;
    }
    const int64_t e0 = ((n + at.image) * pixels + pixel) * features_ + feature;
    if (form_) return put_dense(acc, e0, tall, 1, features_);
    View tile = rec_.sbuf(out_->dtype, tall, count, "product");
    emit_copy(rec_, tile, Val::tile(acc));
    for (int64_t i = 0; i < count; i += lanes_) {
      const int64_t some = std::min(lanes_, count - i);
      View data = tile;
      data.offset = i;
      data.axes = {{1, some}};
      const View rows = rec_.sbuf(out_->dtype, some, tall, "rows");
      emit_transpose(rec_, store_.choice.transpose_engine, rows, {&data, 1});
      store_.store(uint32_t(out_->hbm), out_->dtype, e0 + i * features_, {{features_, some}}, {{1, tall}}, rows);
    }
  }
  void put_dense(const View& acc, int64_t e0, int64_t tall, int64_t across, int64_t along) {
    if (form_) {
      const auto dst = access(*form_, e0, {{across, tall}}, {{along, acc.columns()}});
      CHECK(dst, "a convolution's own form holds its blocks");
      return emit_copy(rec_, *dst, Val::tile(acc));
    }
    const View tile = rec_.sbuf(out_->dtype, tall, acc.columns(), "product");
    emit_copy(rec_, tile, Val::tile(acc));
    store_.store(uint32_t(out_->hbm), out_->dtype, e0, {{across, tall}}, {{along, acc.columns()}}, tile);
  }

  Recorder& rec_;
  Store& store_;
  Memory *in_ = nullptr, *weights_ = nullptr, *out_ = nullptr;
  Form* form_ = nullptr;
  Dtype dtype_ = Dtype::f32;
  int64_t lanes_, images_ = 1, channels_ = 1, features_ = 1, chunks_ = 1, k_in_ = 1, k_out_ = 1, k_first_ = 0;
  bool last_in_ = true, last_out_ = true;  // channels are the minor dim
  std::array<int64_t, 2> size_{}, made_{}, padded_{}, tap_{};
  std::array<ops::WindowDim, 2> windows_{};
  int64_t each_ = 0;                             // features of one panel in memory
  int64_t width_ = 0, together_ = 1, band_ = 1;  // features of a panel, images and rows of a band
  Block whole_ = {};                             // that a reader asks for
  Band brought_ = {};
  std::array<int64_t, 2> in_hand_ = {-1, -1};  // its first image and row
  View panel_ = {};
  int64_t panel_first_ = -1;
  bool apart_ = false;               // channels by themselves: each has a kernel of its own
  View diagonal_ = {};               // column less row
  std::map<int64_t, View> columns_;  // of each chunk: a channel's weights, tap by tap
};

}  // namespace

bool can_shift(const ir::Node& conv) {
  const Dims &x = conv.inputs[0].type().dims, &k = conv.inputs[1].type().dims;
  if (x.size() != 4 || conv.types[0].elements() == 0) return false;
  for (const ir::Value& v : conv.inputs)
    if (!multiplies(v.type().dtype)) return false;
  const auto shape = ops::ConvolutionShape::from(conv.attrs, x, k);
  if (!shape || shape->batch_groups != 1) return false;
  const int64_t groups = shape->feature_groups;
  if (groups != 1 && (groups != x[size_t(shape->input_feature)] || groups != k[size_t(shape->kernel_output_feature)]))
    return false;
  const auto usual = [](int64_t batch, int64_t feature, const ir::Ints& spatial) {
    return batch == 0 && (feature == 1 || feature == 3) && spatial[0] + 1 == spatial[1];
  };
  if (!usual(shape->input_batch, shape->input_feature, shape->input_spatial) ||
      !usual(shape->output_batch, shape->output_feature, shape->output_spatial))
    return false;
  for (const ops::WindowDim& w : shape->windows)
    if (w.base_dilation != 1 || w.low < 0 || w.high < 0) return false;
  return x[size_t(shape->input_feature)] >= (groups > 1 ? tuned::kChannelsApart : tuned::kChannelsLeast) &&
         multiplies(conv.types[0].dtype);
}

void lower_shifted(Recorder& rec, Store& store, const ir::Node& conv, const DotPolicy& policy) {
  Shifted(rec, store, conv, policy).run();
}

std::unique_ptr<Product> product_of_shifted(Recorder& rec, Store& store, const ir::Node& conv,
                                            const DotPolicy& policy) {
  auto out = std::make_unique<Shifted>(rec, store, conv, policy);
  if (!out->is_product()) return nullptr;
  out->prepare();
  return out;
}

}  // namespace trine::compile::device
