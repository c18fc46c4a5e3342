// Price lists: what providers ask for an hour of a GPU, with date and source of every price (`kind: prices`).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/input/reader.hpp"
#include "base/run_quantities.hpp"
#include "costmodel/cluster/cluster.hpp"
#include "costmodel/run_cost/run_cost.hpp"

namespace panpipe {

struct PriceList {
  struct Entry {
    std::string device;  // DeviceType::name
    Money price;         // of one device for an hour
    std::string date;    // "2026-05-18", when it was asked
    std::string source;
  };
  std::string name;  // as it is referred to
  std::vector<Entry> entries;
};

// The name of a device for a message; those of a cluster written in place have none.
std::string spoken_name(const DeviceType& type);

// The list that a node names: a file, or a shipped one of scenarios/prices/. Faults go to the log.
std::optional<PriceList> read_price_list(const Node& reference, ReadLog& log);

// Fills in the prices of the cluster's devices. A device without a price, and two currencies, are errors at `reference`.
void price_devices(const PriceList& list, const Node& reference, const Cluster& cluster, ReadLog& log, RunRequest& run);

}  // namespace panpipe
