#include "exec/engine/stage/float32_products.hpp"

#include <ATen/Context.h>

#include <mutex>

namespace panpipe::exec {

// Written only where it changes something: other ranks' threads may be computing, with the same setting.
void set_float32_products(Precision precision) {
  static std::mutex lock;
  const std::lock_guard hold(lock);
  at::Context& context = at::globalContext();
  const bool tf32 = precision == Precision::Tf32;
  if (context.allowTF32CuBLAS() != tf32) context.setAllowTF32CuBLAS(tf32);
  if (context.allowTF32CuDNN() != tf32) context.setAllowTF32CuDNN(tf32);
}

}  // namespace panpipe::exec
