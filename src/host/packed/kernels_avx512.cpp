// The kernels of kernels.h: avx512. The code is kernels_*.inc, over the lanes named here.
// Everything lives in an unnamed namespace, so no function compiled for one instruction set stands in for another's.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cmath>
#include <cstring>

#include "host/packed/kernels.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c"))), \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms inside the intrinsics (GCC bug 105593)
#endif
#include "host/packed/lanes_avx512.inc"

namespace trine::host {
namespace {

#include "host/packed/kernels_multiply.inc"

#include "host/packed/kernels_attend.inc"

}  // namespace

const PackedKernels kPackedAvx512{quantise_rows, multiply_codes, multiply_floats, multiply_whole, attend,
                                  norm,          activate,       add_times,       to_half,        exp_sum};

}  // namespace trine::host
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
