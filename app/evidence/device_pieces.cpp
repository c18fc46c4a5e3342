// Measurements of a machine as evidence: profiles of `panpipe profile`, and devices that measured themselves.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <set>
#include <utility>

#include "app/evidence/piece_readers.hpp"
#include "base/error.hpp"
#include "base/index.hpp"
#include "base/input/reader.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/cluster/device_reader.hpp"
#include "costmodel/cost/compute.hpp"
#include "costmodel/cost/launch.hpp"
#include "costmodel/profile/calibration.hpp"
#include "costmodel/profile/framework.hpp"
#include "costmodel/profile/measured_keys.hpp"
#include "costmodel/profile/sourced_file.hpp"

namespace panpipe::app {
namespace {

double ratio(double longer, double shorter) { return std::log(longer / shorter); }

// A unit's time, and the directions that it lies in.
struct UnitTime {
  double seconds = 0;
  Sensitivity of{};
};

UnitTime time_of(const UnitCost& unit) {
  Breakdown all = unit.forward.breakdown;
  all = all + (unit.backward ? unit.backward->breakdown : unit.input_gradient.breakdown + unit.weight_gradient.breakdown);
  UnitTime time;
  time.seconds = all.total.base();
  if (time.seconds <= 0) return time;
  const double products = (all.compute - all.attention - all.operands).base(), memory = (all.memory + all.operands).base();
  const double device = products + memory + all.attention.base(), share = device > 0 ? 1 / std::max(device, time.seconds) : 0;
  time.of[at(Direction::Products)] = products * share;
  time.of[at(Direction::Attention)] = all.attention.base() * share;
  time.of[at(Direction::MemoryTraffic)] = memory * share;
  time.of[at(Direction::Host)] = std::max(0.0, 1 - device * share);
  return time;
}

// The scenario as the executor runs it, which measured the profile.
Scenario of_executor(Scenario scenario) {
  scenario.profile = nullptr;
  scenario.framework = load_framework("panpipe", "");
  return scenario;
}

int add_units(GivenPiece& piece, const Profile& profile, const Scenario& scenario) {
  const Experiment experiment(of_executor(scenario));
  std::set<std::string> seen;  // layers are alike
  double sum = 0;
  for (const UnitCost& unit : experiment.model.units(scenario.cluster.devices.front().type).units) {
    const ProfiledUnit* measured = profile.unit(unit.name, unit.structure);
    if (measured == nullptr || !seen.insert(unit.structure).second) continue;
    const UnitTime predicted = time_of(unit);
    const double seconds = (measured->forward + measured->backward).base();
    if (predicted.seconds <= 0 || seconds <= 0) continue;
    ComparedStep observation = in_direction(Direction::Products, ratio(seconds, predicted.seconds));
    observation.sensitivity = predicted.of;
    sum += observation.off;
    piece.observations.push_back(observation);
  }
  const auto count = static_cast<int>(piece.observations.size());
  if (count > 0)
    piece.what = fmt::format("{} kind{} of units {}{}", count, count == 1 ? "" : "s", longer_text(sum / count),
                             count > 1 ? " in the mean" : "");
  return count;
}

// A number that somebody measured, or fitted to runs: not one that is in force for this device, and so predicted the step, and
// not one that stood in for a measurement.
bool is_measured(const std::string& key, const Calibration& numbers, const Calibration& in_force) {
  const auto source = numbers.sources.find(key), value = numbers.values.find(key), shipped = in_force.values.find(key);
  if (source == numbers.sources.end() || value == numbers.values.end()) return false;
  for (const std::string_view stands_in : {kNotMeasured, std::string_view("not fitted")})
    if (source->second.starts_with(stands_in)) return false;
  return shipped == in_force.values.end() || shipped->second != value->second || in_force.sources.at(key) != source->second;
}

// What of a device's calibration bears on steps.
struct DeviceNumber {
  const char* key;
  Direction direction;
  const char* what;
};
constexpr DeviceNumber kDeviceNumbers[] = {{"gemm_efficiency", Direction::Products, "products"},
                                           {"attention_efficiency", Direction::Attention, "attention"},
                                           {"memory_efficiency", Direction::MemoryTraffic, "memory traffic"},
                                           {"launch", Direction::Host, "launches"},
                                           {"fabric_efficiency", Direction::Node, "links in a node"}};

// Whether steps of the scenario are predicted by this number: published rates of a kernel stand for attention's, and launches
// that the scenario states hold on every device.
bool predicts(const DeviceNumber& number, const Calibration& in_force, const Scenario& scenario) {
  if (number.direction == Direction::Attention) return in_force.attention_rates.empty();
  if (number.direction != Direction::Host) return true;
  Calibration slower = in_force;
  slower.launch = 2 * in_force.launch;
  return launch_alone(scenario.framework, slower) != launch_alone(scenario.framework, in_force);
}

// Of the number that `key` names, relative; 0: its file states none.
double uncertainty_of(const Node& root, const std::string& key) {
  const Node* inside = root.find("calibration");
  const Node& numbers = inside != nullptr && inside->kind == NodeKind::Map ? *inside : root;
  const Node* number = numbers.find(key);
  if (number == nullptr || number->kind != NodeKind::Map) return 0;
  const auto plain = [&](const char* part) {
    const Node* node = number->find(part);
    if (node == nullptr) return 0.0;
    if (const auto found = parse_number(node->text); found.value) return *found.value;
    const auto time = parse_duration(node->text);
    return time.value ? time.value->base() : 0.0;
  };
  const double value = plain("value"), uncertainty = plain("uncertainty");
  return value > 0 && uncertainty > 0 ? uncertainty / value : 0;
}

// The times of a measured device over those by which the scenario's steps are predicted.
void add_device(GivenPiece& piece, const DeviceType& measured, const Calibration& numbers, const Node& root,
                const Scenario& scenario) {
  const DeviceType& type = *only_type(scenario);
  const Calibration in_force = calibration_for(type);
  const DeviceRates predicted = device_rates(type, in_force, scenario);
  const double peak = measured.peak_for(outside_products(scenario.precision)).base();
  const Framework& framework = scenario.framework;
  const Duration here = launch_alone(framework, numbers);
  // Measured and predicted rates; a launch's time is counted the other way: the longer, the slower.
  const std::pair<double, double> rates[] = {
      {peak * numbers.gemm_efficiency_in(framework.software), predicted.gemm.base()},
      {peak * numbers.attention_efficiency, predicted.attention.base()},
      {measured.memory_bandwidth.base() * numbers.memory_efficiency, predicted.memory.base()},
      {here > Duration(0) ? 1 / here.base() : 0, 1 / launch_alone(framework, in_force).base()},
      {numbers.fabric_efficiency, in_force.fabric_efficiency}};
  static_assert(std::size(rates) == std::size(kDeviceNumbers));
  for (std::size_t i = 0; i < std::size(rates); ++i) {
    const DeviceNumber& number = kDeviceNumbers[i];
    const auto& [of_measured, of_predicted] = rates[i];
    const double off = ratio(of_predicted, of_measured);
    if (predicts(number, in_force, scenario) && is_measured(number.key, numbers, in_force) && of_measured > 0 &&
        of_predicted > 0 && std::isfinite(off))
      add_measurements(piece, number.what, number.direction, {off}, uncertainty_of(root, number.key));
  }
  if (piece.observations.empty()) piece.left_out = "it states no measured number that this device's own calibration has not";
}

GivenPiece piece_of_one_device(const DeviceType* type) {
  GivenPiece piece;
  if (type == nullptr || !type->has_rates()) piece.left_out = "this machine has devices of several types, or without rates";
  return piece;
}

bool names_device(const NodePtr& root, const DeviceType& type) {
  const auto is = [&](const Node* node) {
    return node != nullptr && (node->text == type.name || node->text == type.driver_name);
  };
  if (is(root->find("name")) || is(root->find("driver_name"))) return true;
  const Node* devices = root->find("devices");
  if (devices == nullptr) return false;
  for (const NodePtr& device : devices->items)
    if (is(device.get())) return true;
  return false;
}

}  // namespace

const DeviceType* only_type(const Scenario& scenario) {
  const auto& types = scenario.cluster.types;  // a slow device is of a type of its own, with the name of the others
  const auto same = [&](const DeviceType& type) { return type.name == types.front().name; };
  return !types.empty() && std::all_of(types.begin(), types.end(), same) ? &types.front() : nullptr;
}

std::string machine_named(const std::string& driver_name, const Scenario& scenario) {
  const DeviceType* type = only_type(scenario);
  if (driver_name.empty() || type == nullptr) return "";
  return driver_name == type->driver_name || driver_name == type->name ? type->name : driver_name;
}

ComparedStep in_direction(Direction direction, double off, double scatter) {
  ComparedStep measurement;
  measurement.sensitivity[at(direction)] = 1;
  measurement.off = off;
  measurement.scatter = scatter;
  return measurement;
}

std::vector<Direction> directions_of_device(const Scenario& scenario) {
  const DeviceType* type = only_type(scenario);
  if (type == nullptr || !type->has_rates()) return {};
  const Calibration in_force = calibration_for(*type);
  std::vector<Direction> found;
  for (const DeviceNumber& number : kDeviceNumbers)
    if (device_measures(number.key, type->kind == "gpu") && predicts(number, in_force, scenario))
      found.push_back(number.direction);
  return found;
}

void add_measurements(GivenPiece& piece, const std::string& what, Direction direction, const std::vector<double>& offs,
                      double uncertainty) {
  if (offs.empty()) return;
  double sum = 0, squares = 0;
  for (const double off : offs) sum += off, squares += off * off;
  const auto count = static_cast<double>(offs.size());
  const double mean = sum / count, variance = std::max(0.0, squares / count - mean * mean);
  piece.observations.push_back(in_direction(direction, mean, std::hypot(kOtherWork, std::sqrt(variance / count), uncertainty)));
  piece.what += fmt::format("{}{} {}", piece.what.empty() ? "" : ", ", what, longer_text(mean));
}

std::vector<GivenPiece> profile_pieces(const EvidenceRequest& request, StatedJob& job) {
  const Scenario& scenario = job.asked();
  const Profile profile = load_profile(request.file);
  const DeviceType* type = only_type(scenario);
  GivenPiece piece = piece_of_one_device(type);
  if (!piece.left_out.empty()) return {piece};
  const auto gpu = profile.measured.find("gpu");
  if (gpu != profile.measured.end())
    piece.machine = machine_named(gpu->second, scenario);
  else
    piece.machine = type->kind == "gpu" ? "a processor" : type->name;
  if (piece.machine != type->name) return {piece};  // its units mean nothing here
  if (add_units(piece, profile, scenario) == 0) piece.left_out = "it has no unit of this workload";
  return {piece};
}

std::vector<GivenPiece> device_pieces(const EvidenceRequest& request, StatedJob& job) {
  const Scenario& scenario = job.asked();
  const DeviceType* type = only_type(scenario);
  GivenPiece piece = piece_of_one_device(type);
  if (!piece.left_out.empty()) return {piece};
  const NodePtr root = load_document(request.file);
  const Node* kind = root->kind == NodeKind::Map ? root->find("kind") : nullptr;
  if (kind == nullptr) throw InputError(request.file + ": this is neither a device file nor a calibration");
  DeviceType measured = *type;
  Calibration numbers;
  if (kind->text == "calibration") {
    numbers = load_calibration(request.file, "");
  } else {
    ReadLog log;
    auto reference = std::make_shared<Node>();
    reference->kind = NodeKind::Scalar;
    reference->text = std::filesystem::absolute(request.file).string();
    reference->source = root->source;
    measured = read_device(*reference, log);
    log.throw_if_errors();
    numbers = calibration_for(measured);
  }
  if (!names_device(root, *type)) {
    const Node* name = root->find("name");
    piece.machine = name == nullptr ? "a device without a name" : name->text;
    return {piece};
  }
  piece.machine = type->name;
  add_device(piece, measured, numbers, *root, scenario);
  return {piece};
}

}  // namespace panpipe::app
