// The Schur form of one matrix: a = z t z^H with t upper triangular, or, of a real matrix, with blocks of two on its
// diagonal for each pair of conjugate eigenvalues (equal diagonal, off-diagonals of opposite sign).
#pragma once

#include "ops/linalg/householder.h"

namespace trine::ops {

// In place: a becomes t; z is overwritten. False where the iteration does not converge.
bool schur_form(Matrix<double> a, Matrix<double> z);
bool schur_form(Matrix<Complex128> a, Matrix<Complex128> z);

}  // namespace trine::ops
