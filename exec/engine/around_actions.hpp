// What happens around the entries of a rank's row in addition to its passes: sums of gradients, weights that come and go.
#pragma once

#include <cstddef>

namespace panpipe::exec {

class AroundActions {
 public:
  virtual ~AroundActions() = default;
  // `index`: of the entry in the plan's row. `evaluates`: it is a forward of an evaluation.
  virtual void before_action(std::size_t index, bool evaluates) = 0;
  virtual void after_action(std::size_t index, bool evaluates) = 0;
};

}  // namespace panpipe::exec
