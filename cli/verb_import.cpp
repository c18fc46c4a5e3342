// panpipe import: other tools' inputs as ours.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/verbs.hpp"
#include "costmodel/base/error.hpp"
#include "costmodel/base/files_write.hpp"
#include "costmodel/base/quantity_text.hpp"
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
  planner::piper::PiperFile file = planner::piper::read_piper_file(options.file);
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
  const planner::piper::Imported imported = planner::piper::import_piper(file, wanted, layers.filename().string());
  planner::piper::warn_of_traps(file);
  for (const std::string& warning : file.warnings) std::fputs((warning + "\n").c_str(), stderr);
  write_file(layers.string(), imported.layers, "choose another file with -o");
  write_file(scenario.string(), imported.scenario, "choose another file with -o");
  std::fputs(fmt::format("written to {} and {}: {} layers, {} edges\n", scenario.string(), layers.string(), file.nodes.size(),
                         file.edges.size())
                 .c_str(),
             stderr);
  return 0;
}

void add_piper(CLI::App& sub, std::function<int()>& run) {
  auto options = std::make_shared<PiperOptions>();
  CLI::App* piper = sub.add_subcommand("piper", "Piper's planning input (JSON): a scenario and a table of profiled layers");
  piper->add_option("FILE", options->file, "input of the Piper planner")->required();
  piper->add_option("--devices", options->devices, "devices of the cluster (default: the file's maxDevices)")
      ->type_name("K")
      ->check(CLI::Range(1, 65536));
  piper->add_option("--memory", options->memory, "of a device (default: the file's)")->type_name("BYTES");
  piper->add_option("--bandwidth", options->bandwidth, "between any two devices (default: the file's)")->type_name("RATE");
  piper->add_option("--microbatches", options->microbatches, "of a step, all replicas together (default: the file's mbsInBatch)")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000000));
  piper->add_option("--max-data", options->most_data, "largest data-parallel degree to choose")
      ->type_name("D")
      ->check(CLI::Range(1, 1000000000));
  piper->add_option("--max-tensor", options->most_tensor, "largest tensor-parallel degree to choose")
      ->type_name("T")
      ->check(CLI::Range(1, 65536));
  piper->add_flag("--no-recompute", options->no_recompute, "leave out profiles with recompute");
  piper->add_option("-o", options->output, "scenario to write; the layers go beside it")->type_name("SCENARIO")->required();
  piper->callback([options, &run] { run = [options] { return import_piper(*options); }; });
}

}  // namespace

void add_import_verb(CLI::App& sub, std::function<int()>& run) {
  sub.require_subcommand(1);
  add_piper(sub, run);
}

}  // namespace panpipe::cli
