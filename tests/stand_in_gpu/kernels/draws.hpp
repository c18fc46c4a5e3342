// Random numbers of operators. A device's generator is a seed and a place (its offset); the CPU draws from a generator that is
// seeded with both. From the place 0 on its draws are those of a CPU run with the same seed.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace panpipe::stand_in {

class Draws {
 public:
  // The draws of one call. Moves the device's generator on. `arguments`: those of the call; a generator among them is taken out.
  Draws(const c10::OperatorHandle& op, torch::jit::Stack& arguments, int device);
  // Calls `call` with what draws as this call must; safe from every thread.
  void during(torch::jit::Stack& arguments, const std::function<void()>& call) const;

 private:
  std::optional<std::uint64_t> seed_;    // none: nothing is drawn
  std::optional<std::size_t> argument_;  // where a generator goes
};

}  // namespace panpipe::stand_in
