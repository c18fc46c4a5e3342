// Parameters that are whole only while a pass needs them (ZeRO 3).
#pragma once

#include <vector>

#include "exec/engine/measure/span_log.hpp"

namespace panpipe::exec {

class ParameterGate {
 public:
  virtual ~ParameterGate() = default;
  // Returns when the parameters of a group (GatheredRange) are whole.
  virtual void open(int group) = 0;
  // A pass has done with them. `backward`: it has added to their gradients what it adds.
  virtual void close(int group, bool backward) = 0;
  // The waits of open() since it was last asked, appended.
  virtual void move_waits_to(std::vector<SpanLog::Interval>& waits) = 0;
};

}  // namespace panpipe::exec
