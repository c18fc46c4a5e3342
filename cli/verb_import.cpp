// panpipe import: other tools' inputs as ours.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "base/error.hpp"
#include "base/files/file_hash.hpp"
#include "base/files/files_write.hpp"
#include "base/input/source_text.hpp"
#include "base/text/quantity_text.hpp"
#include "cli/import_jobs.hpp"
#include "cli/import_kineto.hpp"
#include "cli/import_log.hpp"
#include "cli/import_memory.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "costmodel/cluster/nccl_tests.hpp"
#include "costmodel/cluster/topology_import.hpp"
#include "costmodel/cluster/wiring_defaults.hpp"
#include "planner/piper/piper_file.hpp"

namespace panpipe::cli {
namespace {

struct PiperOptions {
  std::string file, output, memory, bandwidth;
  std::optional<int> devices, microbatches;
  int most_data = 0, most_tensor = 0;
  bool no_recompute = false;
};

// A quantity of the command line; empty: not given.
template <class T>
std::optional<T> quantity(const std::string& flag, const std::string& text, Parsed<T> (*parse)(std::string_view)) {
  if (text.empty()) return std::nullopt;
  const Parsed<T> parsed = parse(text);
  if (!parsed.value) throw InputError(fmt::format("{}: {}", flag, parsed.problem));
  if (!(*parsed.value > T(0))) throw InputError(fmt::format("{}: '{}' must be positive", flag, text));
  return *parsed.value;
}

int import_piper(const PiperOptions& options) {
  namespace fs = std::filesystem;
  const planner::piper::PiperFile file = planner::piper::read_piper_file(options.file);
  planner::piper::ImportOptions wanted;
  wanted.devices = options.devices;
  wanted.microbatches = options.microbatches;
  wanted.memory = quantity<Bytes>("--memory", options.memory, parse_bytes);
  wanted.bandwidth = quantity<Bandwidth>("--bandwidth", options.bandwidth, parse_bandwidth);
  wanted.most_data = options.most_data;
  wanted.most_tensor = options.most_tensor;
  wanted.recompute = !options.no_recompute;
  const fs::path scenario(options.output);
  const fs::path layers = scenario.parent_path() / (scenario.stem().string() + "-layers.yaml");
  if (is_written_into(options.output))
    throw InputError(fmt::format("-o {}: this is no file, and the layers go into a file beside the scenario", options.output),
                     kAdvice);
  check_outputs({layers.string(), scenario.string()}, kAdvice);
  const planner::piper::Imported imported = planner::piper::import_piper(file, wanted, layers.filename().string());
  for (const std::string& warning : file.warnings) print_note(warning + "\n");
  write_file(layers.string(), imported.layers, kAdvice);
  write_file(scenario.string(), imported.scenario, kAdvice);
  print_note(fmt::format("written to {} and {}: {} layers, {} edges\n", scenario.string(), layers.string(), file.nodes.size(),
                         file.edges.size()));
  return 0;
}

void add_piper(CLI::App& sub, std::function<int()>& run) {
  auto options = std::make_shared<PiperOptions>();
  CLI::App* piper =
      sub.add_subcommand("piper", "turn a planning input of Piper (JSON) into a scenario and a table of profiled layers");
  piper->add_option("FILE", options->file, "input of the Piper planner")->required();
  add_number(*piper, "--devices", options->devices, "devices of the cluster (default: the file's maxDevices)", 1, 65536, "K");
  add_typed(*piper, "--memory", options->memory, "memory of a device (default: the file's)", "BYTES");
  add_typed(*piper, "--bandwidth", options->bandwidth, "bandwidth between any two devices (default: the file's)", "RATE");
  add_number(*piper, "--microbatches", options->microbatches,
             "microbatches of a step, all replicas together (default: the file's mbsInBatch)", 1, 1000000000);
  add_number(*piper, "--max-data", options->most_data, "largest data-parallel degree to choose", 1, 1000000000, "D");
  add_number(*piper, "--max-tensor", options->most_tensor, "largest tensor-parallel degree to choose", 1, 65536, "T");
  piper->add_flag("--no-recompute", options->no_recompute, "leave out profiles with recompute");
  add_typed(*piper, "-o", options->output, "scenario to write; the layers go beside it", "SCENARIO")->required();
  piper->callback([options, &run] { run = [options] { return import_piper(*options); }; });
}

struct TopologyOptions {
  std::string file, device, output, bandwidth, latency;
  int nodes = 1;
  std::optional<int> nics;
  double oversubscription = 1;
};

// The network, if there are several nodes or any of its keys is given.
std::optional<NetworkParameters> network_of(const TopologyOptions& options, const TopologyMatrix& matrix) {
  NetworkParameters network;
  const auto bandwidth = quantity<Bandwidth>("--network-bandwidth", options.bandwidth, parse_bandwidth);
  const auto latency = quantity<Duration>("--network-latency", options.latency, parse_duration);
  if (!bandwidth) {
    if (options.nodes > 1)
      throw InputError(fmt::format(
          "{} nodes need a network: give the bandwidth of an adapter, for example --network-bandwidth '25 GB/s'", options.nodes));
    if (options.nics || latency || options.oversubscription != 1)
      throw InputError("--nics, --network-latency and --oversubscription go with --network-bandwidth");
    return std::nullopt;
  }
  network.nic = *bandwidth;
  network.latency = latency.value_or(wiring_defaults::kNetworkLatency);
  network.nics_per_node = options.nics.value_or(std::max(1, static_cast<int>(matrix.nics.size())));
  network.oversubscription = options.oversubscription;
  return network;
}

// A device that does not exist has no place in a file: the option is the place.
DeviceType device_named(const std::string& name) {
  ReadLog log;
  try {
    DeviceType type = load_device(name, "", log);
    log.throw_if_errors();
    return type;
  } catch (const InputError& error) {
    std::vector<Diagnostic> diagnostics = error.diagnostics();
    for (Diagnostic& diagnostic : diagnostics)
      if (diagnostic.file.empty()) diagnostic.place = "--device";
    throw InputError(diagnostics);
  }
}

int import_topology(const TopologyOptions& options) {
  const std::string text = read_text_file(options.file);
  TopologyImport import;
  import.source = options.file == "/dev/stdin" ? "standard input" : options.file;
  import.matrix = parse_topology_matrix(text, import.source);
  import.nodes.type = device_named(options.device);
  import.reference = reference_from(options.output, options.device);
  import.nodes.nodes = options.nodes;
  import.nodes.network = network_of(options, import.matrix);
  const std::string file = cluster_file_of(import);
  if (!deliver(options.output, file)) return 0;
  const std::size_t links = import.matrix.nvlinks.size(), sockets = import.matrix.sockets.size();
  print_note(fmt::format(
      "written to {0}: {1} devices a node, {2} pairs with NVLink{3}, {4} socket{5}{6}; look at it with panpipe check "
      "{0} --links, use it with --set cluster={0}\n",
      options.output, import.matrix.devices, links, has_nvswitch(import.matrix, import.nodes.type) ? " (a switch)" : "", sockets,
      sockets == 1 ? "" : "s", adapters_text(import.matrix)));
  return 0;
}

void add_topology(CLI::App& sub, std::function<int()>& run) {
  auto options = std::make_shared<TopologyOptions>();
  CLI::App* topology = sub.add_subcommand("topology", "turn the output of `nvidia-smi topo -m` into a cluster file");
  topology->add_option("FILE", options->file, "output of `nvidia-smi topo -m`; - for standard input")->required();
  add_typed(*topology, "--device", options->device, "device file, or the name of a shipped one (rtx-3090)", "NAME")->required();
  add_number(*topology, "--nodes", options->nodes, "number of equal nodes (default 1)", 1, 65536);
  add_number(*topology, "--nics", options->nics, "network adapters of a node (default: as many as the matrix shows)", 1, 1024);
  add_typed(*topology, "--network-bandwidth", options->bandwidth, "bandwidth of an adapter, one way", "RATE");
  add_typed(*topology, "--network-latency", options->latency, "latency between nodes (default 5 us)", "TIME");
  add_number(*topology, "--oversubscription", options->oversubscription,
             "oversubscription of the tree between nodes (default 1: it never blocks)", 1.0, 1000.0, "K");
  add_typed(*topology, "-o", options->output, "cluster file to write instead of standard output", "CLUSTER");
  topology->callback([options, &run] { run = [options] { return import_topology(*options); }; });
}

struct NcclTestsOptions {
  std::vector<std::string> files;
  std::string output, kind;
  std::optional<int> ranks, nodes;
};

int import_nccl_tests(const NcclTestsOptions& options) {
  std::vector<NcclTestsRun> runs;
  std::vector<std::string> sources;
  for (const std::string& file : options.files) {
    const std::string name = file == "/dev/stdin" ? "standard input" : file;
    const std::string text = read_text_file(file);
    for (NcclTestsRun& run : parse_nccl_tests(text, name, {options.kind, options.ranks, options.nodes}))
      runs.push_back(std::move(run));
    sources.push_back(
        fmt::format("{} (sha256 {})", std::filesystem::path(name).filename().string(), sha256_of(text).substr(0, 16)));
  }
  for (const NcclTestsRun& run : runs)
    for (const std::string& warning : run.warnings) print_note("warning: " + warning + "\n");
  CollectiveTables tables = tables_of(runs);
  std::size_t rows = 0, points = 0;
  for (const NcclTestsRun& run : runs) rows += run.rows.size();
  for (const CollectiveTable& table : tables.tables) points += table.times.points.size();
  if (rows > points)
    print_note(fmt::format(
        "note: {} of {} rows repeat a size of the same collective over the same ranks: the median of each size is taken\n",
        rows - points, rows));
  tables.measured["files"] = fmt::format("{}", fmt::join(sources, ", "));
  const std::string file = to_yaml(tables, "Written by `panpipe import nccl-tests`.");
  if (!deliver(options.output, file)) return 0;
  std::string list;
  for (const CollectiveTable& table : tables.tables)
    list += fmt::format("{}{} over {} ranks on {} node{}", list.empty() ? "" : ", ", table.kind, table.ranks, table.nodes,
                        table.nodes == 1 ? "" : "s");
  print_note(fmt::format("written to {0}: {1}; use it with collectives: {0} in a cluster file\n", options.output, list));
  return 0;
}

void add_nccl_tests(CLI::App& sub, std::function<int()>& run) {
  auto options = std::make_shared<NcclTestsOptions>();
  CLI::App* tests = sub.add_subcommand("nccl-tests", "turn what nccl-tests prints into a table of measured collectives");
  tests->add_option("FILE", options->files, "output of all_reduce_perf, all_gather_perf ...; - for standard input")->required();
  add_typed(*tests, "--kind", options->kind, "the collective, where the output does not say it", "NAME")
      ->check(CLI::IsMember(collective_kinds()));
  add_number(*tests, "--ranks", options->ranks, "ranks of the group, where the output does not list them", 2, 1 << 20);
  add_number(*tests, "--nodes", options->nodes, "nodes that they lie on, where the output does not list them", 1, 65536);
  add_typed(*tests, "-o", options->output, "table to write instead of standard output", "TABLE");
  tests->callback([options, &run] { run = [options] { return import_nccl_tests(*options); }; });
}

}  // namespace

void add_import_verb(CLI::App& sub, std::function<int()>& run) {
  sub.require_subcommand(1);
  add_job_imports(sub, run);
  add_topology(sub, run);
  add_nccl_tests(sub, run);
  add_kineto_import(sub, run);
  add_log_import(sub, run);
  add_memory_import(sub, run);
  add_piper(sub, run);
}

}  // namespace panpipe::cli
