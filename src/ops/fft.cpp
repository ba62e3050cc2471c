// fft: the discrete Fourier transform over the last dims, as many as fft_length has. FFT and IFFT take and give complex
// numbers; RFFT keeps the n/2+1 first of a real input's, IRFFT gives the real result of such a half. Inverses divide
// by the number of points. C1: fft_length has 1 to 3 entries, the sizes of those dims (of IRFFT: of the result).
#include "ops/axes.h"
#include "ops/fourier.h"
#include "ops/wide.h"

namespace trine::ops {

namespace {

Result<Dtype> result_dtype(std::string_view type, Dtype x) {
  const bool is_double = x == Dtype::f64 || x == Dtype::c128;
  if (type == "RFFT" && (x == Dtype::f32 || x == Dtype::f64)) return is_double ? Dtype::c128 : Dtype::c64;
  if (type == "IRFFT" && is_complex(x)) return is_double ? Dtype::f64 : Dtype::f32;
  if ((type == "FFT" || type == "IFFT") && is_complex(x)) return x;
  return fail(Code::invalid, cat("fft_type `", type, "` of ", row(x).name,
                                 "; FFT, IFFT or IRFFT of c64 or c128, or RFFT of f32 or f64 was expected"));
}

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type& x = call.inputs[0];
  const std::string_view type = call.attrs.text("fft_type");
  const Dtype dtype = TRY(result_dtype(type, x.dtype));
  const ir::Ints& lengths = call.attrs.ints("fft_length");
  if (lengths.empty() || lengths.size() > 3 || lengths.size() > x.dims.size())
    return fail(Code::invalid, cat("fft_length has ", lengths.size(), " entries; the input ", x.rank(), " dims"));
  Dims dims = x.dims;
  for (size_t i = 0; i < lengths.size(); ++i) {
    int64_t& dim = dims[dims.size() - lengths.size() + i];
    const bool is_last = i + 1 == lengths.size();
    const int64_t want = type == "IRFFT" && is_last && lengths[i] > 0 ? lengths[i] / 2 + 1 : lengths[i];
    if (dim != want || lengths[i] < 0)
      return fail(Code::invalid, cat("fft_length ", i, " is ", lengths[i], "; that dim of the input has ", dim));
    if (is_last && type == "RFFT" && dim > 0) dim = dim / 2 + 1;
    if (is_last && type == "IRFFT") dim = lengths[i];
  }
  return std::vector<ir::Type>{ir::tensor_type(dtype, std::move(dims))};
}

// Transforms every line along one dim.
void transform(WideArray<Complex128>& x, const Dims& dims, size_t dim, int sign) {
  const auto lines = offsets_of(dims, axes_besides(int(dims.size()), {int64_t(dim)})),
             steps = offsets_of(dims, {int64_t(dim)});
  Fourier plan(steps.size(), sign);
  std::vector<Complex128> line(steps.size());
  for (int64_t start : lines) {
    for (size_t i = 0; i < steps.size(); ++i) line[i] = x[start + steps[i]];
    plan.run(line);
    for (size_t i = 0; i < steps.size(); ++i) x[start + steps[i]] = line[i];
  }
}

// The last dim cut to `size`, or grown by the mirrored conjugates a real signal has.
WideArray<Complex128> resize_last(const WideArray<Complex128>& x, int64_t from, int64_t to) {
  const int64_t lines = from ? x.size / from : 0;
  WideArray<Complex128> out(lines * to);
  for (int64_t l = 0; l < lines; ++l)
    for (int64_t i = 0; i < to; ++i) out[l * to + i] = i < from ? x[l * from + i] : std::conj(x[l * from + to - i]);
  return out;
}

Result<void> eval(const Eval& e) {
  const std::string_view type = e.node.attrs.text("fft_type");
  const size_t count = e.node.attrs.ints("fft_length").size(), rank = e.in[0].dims.size();
  const bool is_inverse = type == "IFFT" || type == "IRFFT";
  const int64_t in_last = e.in[0].dims.back(), out_last = e.out[0].dims.back();
  Dims dims = e.in[0].dims;
  WideArray<Complex128> x = load_wide<Complex128>(e.in[0]);
  if (e.out[0].elements() == 0) return {};
  auto rest = [&] {
    for (size_t d = rank - count; d + 1 < rank; ++d) transform(x, dims, d, is_inverse ? 1 : -1);
  };
  // A half spectrum is mirrored along the last dim alone, so that dim is the last one an inverse looks at.
  if (type == "IRFFT") {
    rest();
    x = resize_last(x, in_last, out_last);
    dims.back() = out_last;
    transform(x, dims, rank - 1, 1);
  } else {
    transform(x, dims, rank - 1, is_inverse ? 1 : -1);
    if (type == "RFFT") x = resize_last(x, in_last, out_last);
    dims.back() = out_last;
    rest();
  }
  if (is_inverse) {
    double points = 1;
    for (int64_t n : e.node.attrs.ints("fft_length")) points *= double(n);
    for (int64_t i = 0; i < x.size; ++i) x[i] /= points;
  }
  store_wide(x, e.out[0]);
  return {};
}

}  // namespace

extern const Op op_fft{
    .name = "fft", .kind = OpKind::other, .arity = 1, .attrs = "fft_type fft_length", .infer = infer, .eval = eval};

}  // namespace trine::ops
