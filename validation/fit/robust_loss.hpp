// A row's contribution to the loss: 2 scale^2 (sqrt(1 + (r / scale)^2) - 1): quadratic for small residuals, |r| for large ones.
#pragma once

#include <cmath>

namespace panpipe::validation {

struct RobustLoss {
  double scale = 0.05;

  // The residual is the root of the loss, because Ceres takes one loss per block, and all rows form one block.
  double root(double r) const {
    const double s = r / scale;
    return r * std::sqrt(2 / (1 + std::sqrt(1 + s * s)));
  }
  double slope_of_root(double r) const {
    const double s = r / scale, q = std::sqrt(1 + s * s);
    return std::sqrt((1 + q) / 2) / q;
  }
  // The weight that turns a square into this loss.
  double weight(double r) const {
    const double s = r / scale;
    return 1 / std::sqrt(1 + s * s);
  }
};

}  // namespace panpipe::validation
