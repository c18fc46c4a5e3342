// Access to parameters that are whole only while a pass needs them (ZeRO 3).
#pragma once

namespace panpipe::exec {

class ParameterGate {
 public:
  virtual ~ParameterGate() = default;
  // Returns once the parameters of a group (GatheredRange) are whole.
  virtual void open(int group) = 0;
  // A pass has finished with them. `backward`: its contribution to their gradients is complete.
  virtual void close(int group, bool backward) = 0;
};

}  // namespace panpipe::exec
