#include "costmodel/cluster/device_reader.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "base/input/cached_document.hpp"
#include "base/input/run_scalars.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "costmodel/cluster/value_or_file.hpp"

namespace panpipe {
namespace {

const ReferenceKind kDevice{"device", "devices"};

// Rates a file may state; the pure kinds run at their mixed kinds' rate.
constexpr std::array kRates = {Precision::Fp32, Precision::Tf32,  Precision::Bf16,  Precision::Fp16,
                               Precision::Fp8,  Precision::Mxfp8, Precision::Nvfp4, Precision::Mxfp4};

void read_peaks(MapReader& reader, DeviceType& type) {
  const Node* node = reader.require("peak");
  if (!node) return;
  MapReader peak(*node, reader.log());
  for (const Precision precision : kRates) {
    const std::string key(name_of(precision));
    if (peak.has(key)) type.peak[precision] = peak.compute_rate(key);
  }
  peak.finish();
  if (type.peak.empty()) reader.log().error(*node, "a device needs at least one peak rate", "for example 'bf16: 312 TFLOP/s'");
}

void read_nvlink(MapReader& reader, DeviceType& type) {
  const Node* node = reader.find("nvlink");
  if (!node) return;
  MapReader nvlink(*node, reader.log());
  type.nvlink_links = nvlink.integer("links", 1);
  type.nvlink_bandwidth = nvlink.bandwidth("bandwidth");
  nvlink.finish();
}

// A card under load draws a part that stays, and a part that falls with voltage and clock: P / tdp = 0.15 + 0.85 x clock^4. Of
// three RTX 3090 under power limits, 57 to 80 % of the default, it is within 5 % (docs/models/topology.md, "Power and clock").
constexpr double kStays = 0.15, kExponent = 4, kLeastLimit = 0.5;

// Share of the data sheet's clock. The type's rates and power follow.
double read_clock(MapReader& reader, DeviceType& type) {
  double clock = reader.fraction("clock", 1.0);
  if (reader.has("clock") && clock <= 0) reader.log().error(*reader.node().find("clock"), "must be positive");
  if (const Node* limit = reader.find("power_limit")) {
    const Power watts = read_power(*limit, reader.log()).value_or(type.tdp);
    const double share = type.tdp > Power(0) ? watts / type.tdp : 0;
    if (type.tdp <= Power(0))
      reader.log().error(*limit, "a power limit needs the device's `tdp`", "state `tdp: 700 W`, as its data sheet does");
    else if (share < kLeastLimit)
      reader.log().error(*limit, "below half of the device's `tdp`, where no measurement states its rates");
    else if (share < 1)
      clock = std::min(clock, std::pow((share - kStays) / (1 - kStays), 1 / kExponent));
  }
  if (clock >= 1 || clock <= 0) return 1;
  for (auto& [precision, rate] : type.peak) rate = rate * clock;
  type.tdp = type.tdp * (kStays + (1 - kStays) * std::pow(clock, kExponent));
  return clock;
}

// The name of a calibration; where a device's file holds the numbers themselves, that file.
std::string read_calibration(MapReader& reader) {
  const Node* node = reader.find("calibration");
  if (node == nullptr || node->kind != NodeKind::Map) return reader.string("calibration");
  namespace fs = std::filesystem;
  const std::string file =
      node->source ? (fs::path(node->source->directory) / fs::path(node->source->name).filename()).string() : "";
  if (std::error_code ignored; fs::is_regular_file(file, ignored))
    if (const Node* kind = cached_document(file)->find("kind"); kind != nullptr && kind->text == kDevice.kind) return file;
  reader.log().error(*node, "the numbers of a calibration stand in a device's file or in a file of their own",
                     "write them into a file, and name it here");
  return "";
}

// Of what the measuring program noted, the rest is for people and for evidence.
double read_may_be_faster(MapReader& reader) {
  const Node* measured = reader.find("measured");
  const Node* share = measured != nullptr ? measured->find("may_be_faster") : nullptr;
  return share != nullptr ? read_number(*share, reader.log(), Sign::NonNegative).value_or(0) : 0;
}

}  // namespace

DeviceType read_device(const Node& node, ReadLog& log, double* clock) {
  const NodePtr tree = expand_reference(node, kDevice);
  MapReader reader(*tree, log);
  read_heading(reader, kDevice.kind, Heading::Optional);
  DeviceType type;
  type.name = reader.string("name");
  type.kind = reader.choice<std::string>("processor", {{"gpu", "gpu"}, {"cpu", "cpu"}}, "gpu");
  type.memory = reader.bytes("memory", Sign::Positive);
  type.usable = reader.fraction("usable", 1.0);
  type.memory_bandwidth = reader.bandwidth("memory_bandwidth");
  read_peaks(reader, type);
  if (reader.has("multiprocessors")) type.multiprocessors = reader.integer("multiprocessors", 1);
  if (const Node* tdp = reader.find("tdp")) type.tdp = read_power(*tdp, log).value_or(Power(0));
  const double share = read_clock(reader, type);
  if (clock != nullptr) *clock = share;
  type.copy_bandwidth = reader.bandwidth("copy_bandwidth");
  type.peer_access = reader.boolean("peer_access", true);
  type.multicast = reader.boolean("multicast", false);
  read_nvlink(reader, type);
  if (reader.has("calibration")) type.calibration = read_calibration(reader);
  type.may_be_faster = read_may_be_faster(reader);
  if (reader.find("driver_name")) type.driver_name = reader.string("driver_name");
  if (reader.find("server")) type.server = reader.string("server");
  if (reader.find("compute_capability")) type.compute_capability = reader.number("compute_capability", Sign::Positive);
  type.sources = read_sources(reader);
  reader.finish();
  return type;
}

DeviceType load_device(const std::string& reference, const std::string& directory, ReadLog& log) {
  auto source = std::make_shared<SourceText>();
  source->directory = directory;
  Node node;
  node.kind = NodeKind::Scalar;
  node.text = reference;
  node.source = std::move(source);
  return read_device(node, log);
}

}  // namespace panpipe
