// The kernels of kernels.h: portable. The code is kernels_*.inc, over the lanes named here.
// Everything lives in an unnamed namespace, so no function compiled for one instruction set stands in for another's.
#include <cmath>
#include <cstring>

#include "host/packed/kernels.h"

#include "host/packed/lanes_portable.inc"

namespace trine::host {
namespace {

#include "host/packed/kernels_multiply.inc"

#include "host/packed/kernels_attend.inc"

}  // namespace

const PackedKernels kPackedPortable{quantise_rows, multiply_codes, multiply_floats, multiply_whole, attend,
                                    norm,          activate,       add_times,       to_half,        exp_sum};

}  // namespace trine::host
