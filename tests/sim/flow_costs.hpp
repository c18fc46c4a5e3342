// A table of costs whose collectives take their time for their bytes: the same on links that nobody shares in both engines.
#pragma once

#include <vector>

#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe::test {

struct FlowCosts : TableCosts {
  FlowCosts(double of_a_byte, double of_a_gathered_byte)  // seconds
      : rate(of_a_byte), gather(of_a_gathered_byte) {}

  CollectiveCost collective(CollectiveKind kind, Bytes bytes, const std::vector<int>& devices) const override {
    CollectiveCost cost = TableCosts::collective(kind, bytes, devices);
    cost.latency = micros(200);
    cost.wire_bytes = bytes;
    cost.time = cost.latency + Duration(kind == CollectiveKind::AllGather ? gather : rate) * static_cast<double>(bytes.base());
    return cost;
  }

  double rate, gather;
};

}  // namespace panpipe::test
