// Fields to fields; packed weights come from what is kept beside the tensor, where their order allows.
#include "host/conv/conv_step.h"

#include "base/text.h"
#include "host/conv/conv.h"
#include "host/conv/direct.h"
#include "host/conv/stencil.h"

namespace trine::host {

Result<void> run_conv(const arch::ConvStep& step, std::span<const TensorView> in, const TensorView& out,
                      PackedForms* packed_forms, const Epilogue& epilogue) {
  Conv c{
      .batch = step.batch, .in_features = step.in_channels, .out_features = step.out_channels, .groups = step.groups};
  for (const arch::ConvStep::Spatial& s : step.spatial) {
    if (s.in == 1 && s.kernel == 1 && s.out == 1 && s.low == 0) continue;
    if (c.rank == kSpaceMax) {
      return fail(Code::unsupported, cat("a convolution in more than ", kSpaceMax, " dimensions"));
    }
    c.space[size_t(c.rank++)] = {s.in,       s.kernel, s.out, s.step, s.low, s.in_dilation, s.kernel_dilation,
                                 s.reversed, s.x,      s.w,   s.y};
  }
  auto from = [](const TensorView& v, int64_t element) { return v.as<std::byte>() + element * bytes(v.dtype); };
  c.input = {from(in[0], step.x_offset), in[0].dtype, step.x_batch, step.x_channel, step.x_group};
  c.weights = {from(in[1], step.w_offset), in[1].dtype, step.w_out, step.w_in, step.w_group};
  c.output = {out.as<std::byte>(), out.dtype, step.y_batch, step.y_channel, step.y_group};
  c.epilogue = epilogue;
  std::shared_ptr<const PackedMatrix> form;
  const bool asks = packed_forms && !runs_as_stencil(c, Family::floats) && !runs_direct(c, Family::floats);
  if (const auto matrix = asks ? weights_as_matrix(c) : std::nullopt) {
    int64_t k = c.in_features;
    for (int s = 0; s < c.rank; ++s) k *= c.space[size_t(s)].window;
    form = packed_forms->packed(*matrix, step.w_offset, k, c.out_features);
  }
  c.packed_weights = form.get();
  return conv(c);
}

}  // namespace trine::host
