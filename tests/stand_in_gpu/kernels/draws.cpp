#include "tests/stand_in_gpu/kernels/draws.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <algorithm>
#include <mutex>

namespace panpipe::stand_in {
namespace {

// The place moves by more than any call here draws. CUDA wants a multiple of four.
constexpr std::uint64_t kStep = 4;
// Spreads places over seeds (the constant of SplitMix64).
constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15ULL;

std::mutex& default_generator_lock() {
  static std::mutex lock;
  return lock;
}

}  // namespace

Draws::Draws(const c10::OperatorHandle& op, torch::jit::Stack& arguments, int device) {
  const auto& schema = op.schema();
  at::Generator generator;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (schema.arguments()[i].name() != "generator") continue;
    argument_ = i;
    if (arguments[i].isGenerator()) generator = arguments[i].toGenerator();
    arguments[i] = c10::IValue();
  }
  const auto& tags = op.getTags();
  const bool random = std::find(tags.begin(), tags.end(), at::Tag::nondeterministic_seeded) != tags.end();
  if (!random && !argument_) return;
  if (!generator.defined())
    generator = at::globalContext().defaultGenerator(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device)));
  const std::lock_guard hold(generator.mutex());
  const std::uint64_t place = generator.get_offset();
  seed_ = generator.current_seed() ^ (place * kSpread);
  generator.set_offset(place + kStep);
}

void Draws::during(torch::jit::Stack& arguments, const std::function<void()>& call) const {
  if (!seed_) return call();
  if (argument_) {
    arguments[*argument_] = at::detail::createCPUGenerator(*seed_);
    return call();
  }
  // No place for a generator of its own: the CPU's default one is lent and given back.
  const std::lock_guard hold(default_generator_lock());
  at::Generator shared = at::detail::getDefaultCPUGenerator();
  at::Tensor before;
  {
    const std::lock_guard quiet(shared.mutex());
    before = shared.get_state();
    shared.set_current_seed(*seed_);
  }
  call();
  const std::lock_guard quiet(shared.mutex());
  shared.set_state(before);
}

}  // namespace panpipe::stand_in
