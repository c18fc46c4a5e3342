// The machine profiled by `panpipe profile`: its links compared with the cluster's, and a step predicted and run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <sstream>

#include "base/error.hpp"
#include "base/text/quantity_text.hpp"
#include "cli/selftest/measured_job.hpp"
#include "cli/selftest/steps.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "exec/launch/run_options.hpp"
#include "exec/launch/selftest_parts.hpp"
#include "study/compare/compare.hpp"
#include "validation/runs/run_cluster.hpp"

namespace panpipe::cli {
namespace {

constexpr double kMostSecondsOfProfile = 600;  // some ten seconds on an idle machine
constexpr double kMostSecondsOfCopies = 60;
constexpr double kMostSecondsOfSteps = 240;
// A share of the cluster's stated rate. NCCL and Gloo reach 70 to 95 % of it where the path is the stated one.
constexpr double kSlowLink = 0.5;
// A share of the median over pairs that are alike: a pair beyond it has another path.
constexpr double kSlowerThanOthers = 1.0 / 3;
// Predictions from a profile are within it on an idle machine (docs/one-device.md, docs/accuracy.md).
constexpr double kUsualError = 0.25;

constexpr const char* kRemedyOfLink =
    "nvidia-smi topo -m shows the path of each pair: look for a bridge that is not seated, a card in a slot of fewer lanes, "
    "access "
    "control (ACS) of PCIe bridges; a machine that is wired otherwise is stated by panpipe import topology";

struct StatedLinks {
  std::optional<Cluster> cluster;
  std::string name;  // file, or why there is none
  bool own = false;
};

StatedLinks stated_links(const Trial& trial, int ranks) {
  StatedLinks stated;
  if (trial.cluster) {
    stated.cluster = trial.cluster;
    stated.name = "the cluster file";
    stated.own = true;
    return stated;
  }
  if (!trial.on_gpus()) {
    stated.name = "no cluster states a CPU's links";
    return stated;
  }
  validation::RunRow row;
  row.gpu = gpu_cell(trial);
  row.gpus = row.gpus_per_node = ranks;
  const validation::RunCluster shipped = cluster_of(row, "");
  if (!shipped.problem.empty()) {
    stated.name = shipped.problem.substr(0, shipped.problem.find("; there are"));
    return stated;
  }
  stated.name = "the shipped cluster of this card";
  ReadLog log;
  stated.cluster = read_cluster(*parse_document(shipped.yaml, "the shipped cluster", ""), log);
  log.throw_if_errors();
  return stated;
}

std::string rate_text_of(double bytes_per_second) { return to_text(Bandwidth(bytes_per_second)); }

std::vector<HostCopies> copies_of_host(Trial& trial, StepReport& report) {
  std::vector<HostCopies> copies;
  const ChildEnd end = trial.run([] { return exec::launch_copies(); }, kMostSecondsOfCopies);
  if (!end.done())
    report.troubles.push_back({true, "copies between the host and its GPUs failed: " + last_words(end),
                               "nvidia-smi must work: reload the driver, or restart the machine"});
  std::istringstream lines(end.out);
  for (std::string line; std::getline(lines, line);) {
    auto document = nlohmann::ordered_json::parse(line, nullptr, false);
    if (!document.is_object() || !document.contains("to_gpu")) continue;
    copies.push_back({document["gpu"], document["to_gpu"], document["from_gpu"]});
    report.figures["host_bytes_per_s"].push_back(std::move(document));
  }
  return copies;
}

std::string copies_text(const std::vector<HostCopies>& copies) {
  if (copies.empty()) return "";
  double to = copies.front().to_gpu, from = copies.front().from_gpu;
  for (const HostCopies& each : copies) {
    to = std::min(to, each.to_gpu);
    from = std::min(from, each.from_gpu);
  }
  return fmt::format("; host to GPU {}, back {}{}", rate_text_of(to), rate_text_of(from), copies.size() > 1 ? " at least" : "");
}

std::string between_text(const std::vector<MeasuredLink>& links) {
  if (links.empty()) return "one rank has none";
  const auto [slowest, fastest] = std::minmax_element(
      links.begin(), links.end(), [](const MeasuredLink& a, const MeasuredLink& b) { return a.bandwidth < b.bandwidth; });
  double latency = 0;
  for (const MeasuredLink& link : links) latency = std::max(latency, link.latency);
  const std::string rates = links.size() == 1
                                ? rate_text_of(slowest->bandwidth)
                                : fmt::format("{} to {}", rate_text_of(slowest->bandwidth), rate_text_of(fastest->bandwidth));
  return fmt::format("{} pair{}: {}, {} for the smallest message", links.size(), links.size() == 1 ? "" : "s", rates,
                     to_text(seconds(latency)));
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

std::vector<MeasuredLink> links_of(const Profile& profile) {
  std::vector<MeasuredLink> links;
  for (const ProfiledTransfers& transfers : profile.transfers) {
    if (transfers.from >= transfers.to || transfers.table.points.empty()) continue;  // the same both ways
    const auto& [least, shortest] = transfers.table.points.front();
    const auto& [most, longest] = transfers.table.points.back();
    links.push_back({transfers.from, transfers.to, shortest.base(), static_cast<double>(most.base()) / longest.base()});
  }
  return links;
}

std::vector<Trouble> troubles_of_links(const std::vector<MeasuredLink>& links, const Cluster* stated, bool own) {
  struct Judged {
    const MeasuredLink* link;
    std::string path;     // as stated; empty where nothing is
    double expected = 0;  // bytes per second of the largest message
  };
  std::vector<Judged> all;
  std::map<std::string, std::vector<double>> rates;  // of the pairs of a path; where nothing is stated all are one kind
  for (const MeasuredLink& link : links) {
    Judged judged{&link, "", 0};
    if (stated != nullptr && std::max(link.first, link.second) < stated->size()) {
      constexpr Bytes kLargest = mib(64);  // that profiles end with
      const Route route = stated->route(link.first, link.second);
      judged.path = name_of(route.path);
      judged.expected = static_cast<double>(kLargest.base()) / route.time_alone(kLargest).base();
    }
    rates[judged.path].push_back(link.bandwidth);
    all.push_back(judged);
  }
  std::vector<Trouble> troubles;
  for (const Judged& each : all) {
    const std::vector<double>& alike = rates[each.path];
    const double usual = median_of(alike);
    const bool below_stated = each.link->bandwidth < kSlowLink * each.expected;
    const bool below_others = each.link->bandwidth < kSlowerThanOthers * usual;
    if (!below_stated && !below_others) continue;
    std::string what = fmt::format("between {} and {} {} were measured", each.link->first, each.link->second,
                                   rate_text_of(each.link->bandwidth));
    if (below_stated)
      what += fmt::format(", where {} states {} (path: {})", own ? "the cluster file" : "the shipped cluster",
                          rate_text_of(each.expected), each.path);
    if (below_others)
      what += fmt::format("; of {} pairs{} half reach {} and more", alike.size(), each.path.empty() ? "" : " of this path",
                          rate_text_of(usual));
    // A shipped cluster, or none, may not be wired as this machine is: then only what should be alike and is not is wrong.
    troubles.push_back({(below_stated && own) || (below_others && !each.path.empty()), what, kRemedyOfLink});
  }
  return troubles;
}

std::vector<Trouble> troubles_of_copies(const std::vector<HostCopies>& copies, const Cluster* stated, bool own) {
  std::vector<Trouble> troubles;
  for (const HostCopies& each : copies) {
    if (stated == nullptr || each.gpu >= stated->size()) continue;
    const double expected = stated->type_of(each.gpu).copy_bandwidth.base();
    const double slowest = std::min(each.to_gpu, each.from_gpu);
    if (slowest >= kSlowLink * expected) continue;  // 0 where it is not stated
    troubles.push_back(
        {own,
         fmt::format("copies between the host and GPU {} reach {}, where {} states {}", each.gpu, rate_text_of(slowest),
                     own ? "the cluster file" : "the card's data sheet", rate_text_of(expected)),
         "put the card into a slot with all of its PCIe lanes; a process on the other socket is slower too: "
         "nvidia-smi topo -m shows which cores are near"});
  }
  return troubles;
}

StepReport measure_links(Trial& trial) {
  StepReport report;
  const MeasuredJob job = job_for(trial);
  const std::string scenario = trial.folder.write("job.yaml", scenario_of(job)), profile = trial.folder.file("profile.yaml");
  const std::vector<HostCopies> copies = trial.on_gpus() ? copies_of_host(trial, report) : std::vector<HostCopies>{};
  const std::string transport = job.ranks == 1 ? "local" : trial.transport(job.ranks);
  const ChildEnd end =
      trial.run(this_program("profile", {scenario, "-o", profile, "--ranks", std::to_string(job.ranks), "--device", trial.device,
                                         "--transport", transport, "--seconds", trial.request.quick ? "1" : "10", "--repetitions",
                                         trial.request.quick ? "5" : "20"}),
                kMostSecondsOfProfile);
  if (!end.done()) {
    report.done = false;
    report.text = "panpipe profile failed";
    report.troubles.push_back({true, "panpipe profile failed: " + last_words(end), remedy_after(end, transport)});
    return report;
  }
  trial.profile = profile;
  // Ranks that share the only GPU exchange copies within its memory, which are no link.
  const bool alone = trial.on_gpus() && trial.gpus() == 1;
  const std::vector<MeasuredLink> links = alone ? std::vector<MeasuredLink>{} : links_of(load_profile(profile));
  const StatedLinks stated = stated_links(trial, job.ranks);
  const Cluster* const cluster = stated.cluster ? &*stated.cluster : nullptr;
  for (const std::vector<Trouble>& found :
       {troubles_of_links(links, cluster, stated.own), troubles_of_copies(copies, cluster, stated.own)})
    report.troubles.insert(report.troubles.end(), found.begin(), found.end());
  report.text = (alone ? "one GPU has none" : between_text(links)) + copies_text(copies) + "; beside: " + stated.name;
  report.figures["transport"] = transport;
  report.figures["pairs"] = nlohmann::ordered_json::array();
  for (const MeasuredLink& link : links) {
    nlohmann::ordered_json one = {
        {"first", link.first}, {"second", link.second}, {"latency_s", link.latency}, {"bandwidth_bytes_per_s", link.bandwidth}};
    if (stated.cluster && std::max(link.first, link.second) < stated.cluster->size()) {
      const Route route = stated.cluster->route(link.first, link.second);
      one["stated_path"] = name_of(route.path);
      one["stated_seconds_of_64_mib"] = route.time_alone(mib(64)).base();
    }
    report.figures["pairs"].push_back(std::move(one));
  }
  return report;
}

namespace {

std::optional<double> metric(const present::ResultDocument& result, const std::string& name) {
  for (const auto& [each, value] : result.metrics)
    if (each == name) return value;
  return std::nullopt;
}

// False where the verb failed; the report then states why.
bool call_verb(Trial& trial, StepReport& report, const char* verb, const std::vector<std::string>& words) {
  const ChildEnd end = trial.run(this_program(verb, words), kMostSecondsOfSteps);
  if (end.done()) return true;
  report.done = false;
  report.text = fmt::format("panpipe {} failed", verb);
  report.troubles.push_back({true, fmt::format("panpipe {} failed: {}", verb, last_words(end)),
                             "call the verb by itself; where it fails as well, its own message has the remedy"});
  return false;
}

}  // namespace

StepReport predict_and_run(Trial& trial) {
  StepReport report;
  if (!trial.profile) {
    report.done = false;
    report.text = "left out: there is no profile";
    return report;
  }
  const MeasuredJob job = job_for(trial);
  const std::string scenario = trial.folder.file("job.yaml"), profile = "profile=" + *trial.profile;
  const std::string predicted = trial.folder.file("predicted"), measured = trial.folder.file("measured");
  std::vector<std::string> simulate{scenario, "--set", profile, "-o", predicted};
  if (!trial.machine.simgrid_problem.empty()) simulate.insert(simulate.end(), {"--backend", "flow"});
  exec::RunRequest run = trial.run_request(scenario, trial.transport(job.ranks));
  run.overrides = {profile};
  run.output = measured;
  run.steps = trial.request.quick ? 3 : 10;
  run.warmup = 2;
  if (!call_verb(trial, report, "simulate", simulate) || !call_verb(trial, report, "run", to_arguments(run))) return report;
  const present::ResultDocument ours = present::read_result(predicted), theirs = present::read_result(measured);
  const study::Comparison comparison = study::compare(ours, theirs, {}, /*metrics_only=*/true);
  for (const study::ComparedMetric& each : comparison.metrics) {
    if (!each.a || !each.b) continue;
    nlohmann::ordered_json figure = {{"metric", each.name}, {"predicted", *each.a}, {"measured", *each.b}};
    figure["relative_error"] = each.relative ? nlohmann::ordered_json(*each.relative) : nlohmann::ordered_json(nullptr);
    report.figures["metrics"].push_back(std::move(figure));
  }
  const double step = metric(theirs, "step_time_s").value_or(0), expected = metric(ours, "step_time_s").value_or(0);
  const double error = step > 0 ? expected / step - 1 : 0;
  const std::string note =
      fmt::format("adam; transport {}; LibTorch {}{}", trial.transport(job.ranks), trial.machine.libtorch_version,
                  trial.on_gpus() ? "; driver " + trial.machine.gpus.driver : "");
  trial.row = row_of(job, gpu_cell(trial), step, metric(theirs, "peak_memory_bytes").value_or(0), note);
  report.text = fmt::format("a step of {} layers of {} over {} predicted with {}, measured {}: {:+.1f} %", job.layers, job.hidden,
                            job.ranks == 1 ? "one rank" : trial.ranks_text(job.ranks), to_text(seconds(expected)),
                            to_text(seconds(step)), 100 * error);
  if (std::abs(error) > kUsualError)
    report.troubles.push_back({false,
                               fmt::format("the prediction is {:.0f} % off; on an idle machine it is within {:.0f} %",
                                           100 * std::abs(error), 100 * kUsualError),
                               "end what else runs on the machine and call it again; clocks that change do the same"});
  return report;
}

}  // namespace panpipe::cli
