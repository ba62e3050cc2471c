// The discrete Fourier transform of one line, of any length.
#pragma once

#include <complex>
#include <span>
#include <vector>

namespace trine::ops {

// In place: x[k] = sum over j of x[j] exp(sign * 2 pi i j k / n). Not scaled. A plan holds the factors of a length.
class Fourier {
 public:
  Fourier(size_t length, int sign);
  void run(std::span<std::complex<double>> x);

 private:
  using Line = std::vector<std::complex<double>>;
  void powers_of_two(std::span<std::complex<double>> x, bool is_inverse) const;

  size_t length_ = 0, padded_ = 0;  // padded_: a power of two, for other lengths (Bluestein)
  Line roots_;                      // exp(-2 pi i k / padded)
  Line chirp_, filter_, scratch_;   // exp(sign * pi i k^2 / length), and its transform
  int sign_ = -1;
};

}  // namespace trine::ops
