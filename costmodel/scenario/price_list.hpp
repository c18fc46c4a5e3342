// Price lists: providers' prices per GPU hour, each with date and source (`kind: prices`).
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
    Money price;         // of one device for one hour
    std::string date;    // date of the quote: "2026-05-18"
    std::string source;
  };
  std::string name;  // as referred to
  std::vector<Entry> entries;
};

// The name of a device in messages. Devices of an in-place cluster have no name of their own.
std::string display_name(const DeviceType& type);

// Reads the list that a node names: a file, or a shipped one of scenarios/prices/. Faults are logged.
std::optional<PriceList> read_price_list(const Node& reference, ReadLog& log);

// Fills in the prices of the cluster's devices. A device without a price, or two currencies, are errors at `reference`.
void price_devices(const PriceList& list, const Node& reference, const Cluster& cluster, ReadLog& log, RunRequest& run);

}  // namespace panpipe
