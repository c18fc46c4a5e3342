#include "costmodel/cost/streamed_blocks.hpp"

#include <cmath>

namespace panpipe {

void stream_activations(int count, bool inputs, WorkloadCost& cost) {
  int number = 0;
  const std::string* block = nullptr;
  for (UnitCost& unit : cost.units) {
    if (unit.block.empty()) continue;
    if (block == nullptr || unit.block != *block) ++number;
    block = &unit.block;
    unit.streams = number <= count ? Streamed::All : inputs ? Streamed::Inputs : Streamed::None;
  }
}

void stream_gradients(double bytes_each, WorkloadCost& cost) {
  for (UnitCost& unit : cost.units) {
    double elements = 0;
    for (const ParameterUse& use : unit.parameters) elements += static_cast<double>(use.elements);
    unit.streamed_gradients = Bytes(std::llround(elements * bytes_each));
    unit.temporary += Bytes(std::llround(2 * elements * bytes_each));
  }
}

}  // namespace panpipe
