// Special functions that the C++ library lacks, on doubles, to a few units of the last place.
#pragma once

namespace trine::ops {

double digamma(double x);              // NaN at the poles 0, -1, -2 ...
double zeta(double s, double q);       // Hurwitz: the sum over k >= 0 of (q + k)^-s
double polygamma(double n, double x);  // the n-th derivative of digamma; NaN unless n is 0, 1, 2 ...
double erf_inv(double y);              // infinite at 1 and -1, NaN beyond
double bessel_i1e(double x);           // e^-|x| I1(x)

}  // namespace trine::ops
