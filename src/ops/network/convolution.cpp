// convolution: sums of products of a kernel with the window of the input under it, for any order of dims, strides,
// padding (also negative), dilation of input and kernel, reversal, and groups of features or of the batch.
// C1: the dimension numbers name each dim once. C2: groups divide what they group, and only one count exceeds 1.
#include "ops/network/convolution_shape.h"
#include "ops/wide.h"

namespace trine::ops {

namespace {

Result<std::vector<ir::Type>> infer(const Call& call) {
  const Dims &input = call.inputs[0].dims, &kernel = call.inputs[1].dims;
  const auto shape = TRY(ConvolutionShape::from(call.attrs, input, kernel));
  const Dtype dtype = call.declared.empty() ? call.inputs[0].dtype : call.declared[0].dtype;
  return std::vector<ir::Type>{ir::tensor_type(dtype, shape.output_dims(input, kernel))};
}

// The kernel as [group][tap][input feature][output feature of the group], so that inner loops run over neighbours.
template <class W>
WideArray<W> pack_kernel(const TensorView& kernel, const ConvolutionShape& s, int64_t groups) {
  const WideArray<W> w = load_wide<W>(kernel);
  const Dims strides = row_major_strides(kernel.dims);
  const auto taps = offsets_of(kernel.dims, s.kernel_spatial);
  const int64_t inputs = kernel.dims[size_t(s.kernel_input_feature)];
  const int64_t outputs = kernel.dims[size_t(s.kernel_output_feature)] / groups;
  WideArray<W> packed(kernel.elements());
  int64_t at = 0;
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t tap : taps)
      for (int64_t i = 0; i < inputs; ++i)
        for (int64_t o = 0; o < outputs; ++o)
          packed[at++] = w[tap + i * strides[size_t(s.kernel_input_feature)] +
                           (g * outputs + o) * strides[size_t(s.kernel_output_feature)]];
  return packed;
}

template <class W>
struct Convolve {
  const Eval& e;
  const ConvolutionShape& s;
  int64_t groups = s.feature_groups * s.batch_groups;
  int64_t inputs = e.in[1].dims[size_t(s.kernel_input_feature)];
  int64_t outputs = e.out[0].dims[size_t(s.output_feature)] / groups;
  Dims in_strides = row_major_strides(e.in[0].dims), out_strides = row_major_strides(e.out[0].dims);
  Dims tap_dims = sizes_of(e.in[1].dims, s.kernel_spatial);
  WideArray<W> x = load_wide<W>(e.in[0]), w = pack_kernel<W>(e.in[1], s, groups);
  WideArray<W> out{e.out[0].elements()}, sums{outputs};

  // The taps that meet an element of the input with the window at `at`: (tap, offset in the input).
  void find_taps(const Dims& at, std::vector<std::pair<int64_t, int64_t>>& taps) const {
    taps.clear();
    for_each_index(tap_dims, [&](const Dims& tap, int64_t t) {
      int64_t from = 0;
      for (size_t d = 0; d < tap.size(); ++d) {
        const size_t axis = size_t(s.input_spatial[d]);
        const int64_t position = s.windows[d].element(at[d], tap[d], e.in[0].dims[axis]);
        if (position < 0) return;
        from += position * in_strides[axis];
      }
      taps.emplace_back(t, from);
    });
  }

  void run() {
    const int64_t batch = e.out[0].dims[size_t(s.output_batch)], tap_count = element_count(tap_dims);
    const int64_t feature_step = in_strides[size_t(s.input_feature)];
    const Dims spatial_strides = sizes_of(out_strides, s.output_spatial);
    std::vector<std::pair<int64_t, int64_t>> taps;
    for_each_index(sizes_of(e.out[0].dims, s.output_spatial), [&](const Dims& at, int64_t) {
      find_taps(at, taps);
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t g = 0; g < groups; ++g) {
          // One of the two group counts is 1: the group moves along the features or along the batch.
          const int64_t from = s.batch_groups > 1 ? (g * batch + b) * in_strides[size_t(s.input_batch)]
                                                  : b * in_strides[size_t(s.input_batch)] + g * inputs * feature_step;
          std::fill_n(sums.data.get(), outputs, W{});
          for (const auto& [tap, offset] : taps)
            for (int64_t i = 0; i < inputs; ++i)
              add_row(x[from + offset + i * feature_step], w.at(((g * tap_count + tap) * inputs + i) * outputs));
          const int64_t to = offset_of(at, spatial_strides) + b * out_strides[size_t(s.output_batch)];
          for (int64_t o = 0; o < outputs; ++o)
            out[to + (g * outputs + o) * out_strides[size_t(s.output_feature)]] = sums[o];
        }
    });
    store_wide(out, e.out[0]);
  }
  void add_row(W value, const W* row) {
    for (int64_t o = 0; o < outputs; ++o) sums[o] = wide_add(sums[o], wide_multiply(value, row[o]));
  }
};

Result<void> eval(const Eval& e) {
  const auto shape = TRY(ConvolutionShape::from(e.node.attrs, e.in[0].dims, e.in[1].dims));
  dispatch_wide(e.out[0].dtype, [&]<class W>() { Convolve<W>{e, shape}.run(); });
  return {};
}

}  // namespace

extern const Op op_convolution{.name = "convolution",
                               .kind = OpKind::contraction,
                               .arity = 2,
                               .attrs =
                                   "input_batch input_feature input_spatial kernel_input_feature "
                                   "kernel_output_feature kernel_spatial output_batch output_feature output_spatial "
                                   "window_strides padding lhs_dilation rhs_dilation window_reversal "
                                   "feature_group_count batch_group_count precision",
                               .infer = infer,
                               .eval = eval};

}  // namespace trine::ops
