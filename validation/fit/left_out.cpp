#include "validation/fit/left_out.hpp"

#include "validation/fit/cluster_factor.hpp"

namespace panpipe::validation {

Vector LeftOut::residuals(const std::vector<bool>& out) const {
  Vector kept = weights, wanted = Vector::Zero(weights.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!out[i]) continue;
    kept[at_index(i)] = 0;
    wanted[at_index(i)] = 1;
  }
  Prior own = prior;
  if (starts != nullptr) own.starts = factored_start(model, kept, loss, *starts).starts;
  MinimizeOptions options;
  options.renewals = 0;  // it begins near its end, with the derivatives of the whole
  const Minimum refit = minimize(model, kept, loss, own, whole, options);
  return model.residuals(refit.logs, wanted);
}

}  // namespace panpipe::validation
