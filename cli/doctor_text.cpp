#include "cli/doctor_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/text/quantity_text.hpp"
#include "base/text/text_table.hpp"
#include "base/version.hpp"
#include "cli/build_info.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "exec/launch/visible_gpus.hpp"

namespace panpipe::cli {
namespace {

using nlohmann::ordered_json;

struct Finding {
  std::string what, found;
  std::string rest;  // how to get what is missing; empty where nothing is
};

enum class Ability { Yes, Partly, No };

struct VerbAbility {
  std::vector<std::string> verbs;
  Ability ability;
  std::string text, rest;
};

std::string bytes_text(std::int64_t bytes) { return to_text(Bytes(bytes)); }

std::string name_of(Ability ability) { return ability == Ability::Yes ? "yes" : ability == Ability::Partly ? "partly" : "no"; }

std::string with_version(const std::string& version, const std::string& text) {
  return version.empty() ? text : version + ", " + text;
}

}  // namespace

// Equal ones together.
std::string gpus_text(const Gpus& gpus) {
  std::map<std::string, int> kinds;
  for (const Gpu& gpu : gpus.devices) {
    std::string text = gpu.name.empty() ? "GPU" : gpu.name;
    if (gpu.memory > 0) text += fmt::format(" ({}, {} free)", bytes_text(gpu.memory), bytes_text(gpu.free));
    ++kinds[text];
  }
  std::vector<std::string> texts;
  for (const auto& [text, count] : kinds) texts.push_back(fmt::format("{} x {}", count, text));
  std::string all = fmt::format("{}", fmt::join(texts, ", "));
  if (!gpus.driver.empty()) all += fmt::format("; driver {}", gpus.driver);
  if (!gpus.cuda.empty()) all += fmt::format(" for CUDA up to {}", gpus.cuda);
  if (static_cast<std::size_t>(gpus.visible) != gpus.devices.size())
    all += fmt::format("; programs see {} of them (CUDA_VISIBLE_DEVICES, /dev/nvidia*)", gpus.visible);
  if (!gpus.problem.empty()) all += "; " + gpus.problem;
  return all;
}

namespace {

// Whether the driver serves the CUDA release that the torch package is built with.
exec::DriverFit driver_of(const Machine& machine) {
  return exec::driver_fit(machine.gpus.driver, machine.gpus.cuda, exec::cuda_of_torch(machine.libtorch_version));
}

Finding gpu_finding(const Machine& machine) {
  const Gpus& gpus = machine.gpus;
  if (gpus.devices.empty())
    return {"GPUs", "none: " + gpus.problem, "a machine with NVIDIA GPUs and their driver; predictions need none"};
  if (const exec::DriverFit fit = driver_of(machine); !fit.problem.empty())
    return {"GPUs", gpus_text(gpus) + "; not usable: " + fit.problem, fit.remedy};
  return {"GPUs", gpus_text(gpus), gpus.problem.empty() ? "" : "install the driver's libraries (nvidia-smi must work)"};
}

constexpr const char* kExecutorRemedy = "install LibTorch (make setup puts it into .venv), then make build";

Finding libtorch_finding(const Machine& machine) {
  if (!machine.libtorch.empty())
    return {"LibTorch",
            with_version(machine.libtorch_version,
                         machine.libtorch + (machine.libtorch_why.empty() ? "" : " (" + machine.libtorch_why + ")")),
            ""};
  std::string found = "none that fits";
  if (!machine.libtorch_looked.empty()) found += ": " + fmt::format("{}", fmt::join(machine.libtorch_looked, "; "));
  const std::string wanted = machine.libtorch_wanted.empty() ? "" : fmt::format(" {}", machine.libtorch_wanted);
  return {"LibTorch", found,
          fmt::format("pip install the torch package{} into an environment and activate it, or name its folder in "
                      "PANPIPE_LIBTORCH",
                      wanted)};
}

std::string cores_text(const Machine& machine) {
  std::string text = fmt::format("{} usable", machine.cores);
  if (machine.cores != machine.cores_of_machine)
    text += fmt::format(" of {} (affinity, control groups)", machine.cores_of_machine);
  return text;
}

// From half of the cores on, other work and the ranks of a measurement meet.
std::string load_text(const Machine& machine) {
  const std::string text =
      fmt::format("{:.1f} on {} core{}", machine.load, machine.cores_of_machine, machine.cores_of_machine == 1 ? "" : "s");
  if (machine.load < 0.5 * machine.cores_of_machine) return text;
  return text +
         " over the last minute: other work keeps them busy, and what run, profile and selftest measure now takes too long";
}

std::string memory_text(const Machine& machine) {
  std::string text = fmt::format("{} usable", bytes_text(machine.memory));
  if (machine.memory != machine.memory_of_machine)
    text += fmt::format(" of {} (control groups)", bytes_text(machine.memory_of_machine));
  if (machine.memory_available > 0) text += fmt::format(", {} available", bytes_text(machine.memory_available));
  if (machine.shared_memory > 0)
    text += fmt::format("; /dev/shm {}, {} free", bytes_text(machine.shared_memory), bytes_text(machine.shared_memory_free));
  return text;
}

std::vector<Finding> findings_of(const Machine& machine) {
  std::vector<Finding> list;
  list.push_back(machine.data_found
                     ? Finding{"data", fmt::format("{} ({})", machine.data_folder, machine.data_why), ""}
                     : Finding{"data", fmt::format("no folder {} ({})", machine.data_folder, machine.data_why),
                               "set PANPIPE_DATA to the folder scenarios/ of the sources, or share/panpipe of an installation"});
  if (machine.simgrid_problem.empty())
    list.push_back({"SimGrid", with_version(machine.simgrid_version, "its module loads"), ""});
  else
    list.push_back({"SimGrid", machine.simgrid_problem,
                    machine.simgrid_version.empty() ? "install SimGrid (libsimgrid-dev) and build again"
                                                    : "install the SimGrid that this program was built with (libsimgrid-dev)"});
  list.push_back(machine.ceres ? Finding{"Ceres", "built in", ""}
                               : Finding{"Ceres", "not built in", "install libceres-dev and build again"});
  list.push_back(machine.executor.empty() ? Finding{"executor", "not in this build", kExecutorRemedy}
                                          : Finding{"executor", machine.executor, ""});
  list.push_back(libtorch_finding(machine));
  list.push_back(gpu_finding(machine));
  list.push_back(machine.nccl.empty() ? Finding{"NCCL", "none", "a torch package with CUDA brings it (nvidia-nccl)"}
                                      : Finding{"NCCL", with_version(machine.nccl_version, machine.nccl), ""});
  list.push_back({"cores", cores_text(machine), ""});
  list.push_back({"load", load_text(machine), ""});
  list.push_back({"memory", memory_text(machine), ""});
  list.push_back(machine.ports_problem.empty() ? Finding{"ports", "a port of 127.0.0.1 can be opened", ""}
                                               : Finding{"ports", "no port of 127.0.0.1 can be opened: " + machine.ports_problem,
                                                         "allow the loopback interface; --transport local needs no port"});
  return list;
}

// NCCL runs where every part of it is here; else which part is missing.
std::string missing_for_nccl(const Machine& machine) {
  if (machine.gpus.visible == 0) return machine.gpus.devices.empty() ? "a GPU" : "a GPU that programs may see";
  if (!machine.libtorch_cuda) return "a LibTorch with CUDA";
  if (!driver_of(machine).problem.empty()) return "a driver for the CUDA release of the torch package: see above";
  if (!machine.executor_nccl) return "the executor's module for NCCL (built where LibTorch comes with CUDA)";
  if (machine.nccl.empty()) return "the NCCL library";
  return "";
}

VerbAbility training_ability(const Machine& machine) {
  const std::vector<std::string> verbs = {"run", "profile"};
  if (machine.executor.empty()) return {verbs, Ability::No, "this build has no executor", kExecutorRemedy};
  if (machine.libtorch.empty()) return {verbs, Ability::No, "the executor finds no LibTorch", libtorch_finding(machine).rest};
  std::vector<std::string> can = {"local"};
  if (machine.ports_problem.empty()) can.emplace_back("gloo");
  const std::string missing = missing_for_nccl(machine);
  if (missing.empty() && machine.ports_problem.empty()) can.emplace_back("nccl");
  const bool cuda = machine.gpus.visible > 0 && machine.libtorch_cuda && driver_of(machine).problem.empty();
  const std::string on =
      cuda ? fmt::format("on {} and the CPU",
                         machine.gpus.visible == 1 ? std::string("1 GPU") : fmt::format("{} GPUs", machine.gpus.visible))
           : fmt::format("on the CPU ({} core{}, {})", machine.cores, machine.cores == 1 ? "" : "s", bytes_text(machine.memory));
  const bool all = can.size() == 3;
  return {verbs, all ? Ability::Yes : Ability::Partly, fmt::format("transports {} {}", fmt::join(can, ", "), on),
          all               ? ""
          : missing.empty() ? "a port of 127.0.0.1 that can be opened"
                            : fmt::format("--transport nccl needs {}", missing)};
}

std::vector<VerbAbility> abilities_of(const Machine& machine) {
  const bool data = machine.data_found;
  const std::string own_files = "only scenarios whose files you have: nothing shipped is found";
  const std::string data_rest = data ? "" : findings_of(machine).front().rest;
  std::vector<VerbAbility> list;
  list.push_back(
      {{"check", "estimate", "plan", "validate"}, data ? Ability::Yes : Ability::Partly, data ? "" : own_files, data_rest});
  list.push_back({{"schedule", "compare", "report", "import"}, Ability::Yes, "", ""});
  list.push_back({{"arena"},
                  data ? Ability::Yes : Ability::Partly,
                  data ? "" : "with --clusters none, or clusters whose files you have",
                  data_rest});
  if (machine.simgrid_problem.empty())
    list.push_back({{"simulate", "sweep"}, data ? Ability::Yes : Ability::Partly, data ? "" : own_files, data_rest});
  else
    list.push_back({{"simulate", "sweep"},
                    Ability::Partly,
                    "simulate --backend flow; sweep with --engine estimate",
                    "SimGrid is missing: see above"});
  list.push_back(
      machine.ceres
          ? VerbAbility{{"fit"}, Ability::Yes, "", ""}
          : VerbAbility{{"fit"}, Ability::Partly, "only profiles of operators and links", "measured runs need Ceres: see above"});
  list.push_back(training_ability(machine));
  return list;
}

constexpr std::string_view color_of(Ability ability) {
  return ability == Ability::Yes ? kGreen : ability == Ability::Partly ? kYellow : kRed;
}

std::string verbs_text(const VerbAbility& verb) { return fmt::format("{}", fmt::join(verb.verbs, ", ")); }

}  // namespace

std::vector<Lack> lacks_of(const Machine& machine) {
  std::vector<Lack> lacks;
  for (const Finding& finding : findings_of(machine))
    if (!finding.rest.empty()) lacks.push_back({finding.what, finding.found, finding.rest});
  // Each part may be here and still not go together: built for NCCL, say.
  if (const VerbAbility training = training_ability(machine); training.ability != Ability::Yes)
    lacks.push_back({"training", training.text, training.rest});
  return lacks;
}

std::string doctor_text(const Machine& machine, const TextStyle& style) {
  TextTable found({"<", "<"});
  const auto add = [](TextTable& table, const std::string& name, const std::string& text, const std::string& rest) {
    table.row({name, text});
    if (!rest.empty()) table.row({"", "to get it: " + rest});
  };
  for (const Finding& finding : findings_of(machine)) add(found, finding.what, finding.found, finding.rest);
  TextTable verbs({"<", "<"});
  for (const VerbAbility& verb : abilities_of(machine))
    add(verbs, verbs_text(verb),
        style.paint(color_of(verb.ability), name_of(verb.ability)) + (verb.text.empty() ? "" : ": " + verb.text), verb.rest);
  return fmt::format("panpipe {} finds on this machine\n{}\nverbs that work here\n{}", kVersion, found.text(style),
                     verbs.text(style));
}

std::string doctor_json(const Machine& machine) {
  ordered_json out = {{"schema", "panpipe-doctor/1"}, {"version", kVersion}};
  for (const auto& [name, value] : build_info()) out["built"][name] = value;
  const auto text_or_null = [](const std::string& text) { return text.empty() ? ordered_json(nullptr) : ordered_json(text); };
  ordered_json found;
  found["data"] = {{"found", machine.data_found}, {"folder", machine.data_folder}, {"why", machine.data_why}};
  found["simgrid"] = {{"found", machine.simgrid_problem.empty()},
                      {"version", text_or_null(machine.simgrid_version)},
                      {"problem", text_or_null(machine.simgrid_problem)}};
  found["ceres"] = {{"found", machine.ceres}};
  found["executor"] = {
      {"found", !machine.executor.empty()}, {"program", text_or_null(machine.executor)}, {"nccl", machine.executor_nccl}};
  found["libtorch"] = {{"found", !machine.libtorch.empty()},
                       {"folder", text_or_null(machine.libtorch)},
                       {"version", text_or_null(machine.libtorch_version)},
                       {"why", text_or_null(machine.libtorch_why)},
                       {"built_with", text_or_null(machine.libtorch_wanted)},
                       {"looked", machine.libtorch_looked},
                       {"cuda", machine.libtorch_cuda}};
  ordered_json gpus = ordered_json::array();
  for (const Gpu& gpu : machine.gpus.devices)
    gpus.push_back({{"name", text_or_null(gpu.name)}, {"memory_bytes", gpu.memory}, {"free_bytes", gpu.free}});
  found["gpus"] = {{"found", machine.gpus.devices.size()},          {"visible", machine.gpus.visible},
                   {"driver", text_or_null(machine.gpus.driver)},   {"cuda", text_or_null(machine.gpus.cuda)},
                   {"problem", text_or_null(machine.gpus.problem)}, {"devices", gpus}};
  found["nccl"] = {
      {"found", !machine.nccl.empty()}, {"file", text_or_null(machine.nccl)}, {"version", text_or_null(machine.nccl_version)}};
  found["cores"] = {{"usable", machine.cores}, {"machine", machine.cores_of_machine}};
  found["load"] = {{"average", machine.load}};
  found["memory"] = {{"usable_bytes", machine.memory},
                     {"machine_bytes", machine.memory_of_machine},
                     {"available_bytes", machine.memory_available},
                     {"shared_bytes", machine.shared_memory},
                     {"shared_free_bytes", machine.shared_memory_free}};
  found["ports"] = {{"loopback", machine.ports_problem.empty()}, {"problem", text_or_null(machine.ports_problem)}};
  for (const Finding& finding : findings_of(machine)) {
    std::string key = finding.what;
    for (char& c : key) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    found[key]["text"] = finding.found;
    found[key]["rest"] = text_or_null(finding.rest);
  }
  out["found"] = std::move(found);
  out["verbs"] = ordered_json::object();
  for (const VerbAbility& verb : abilities_of(machine))
    for (const std::string& name : verb.verbs)
      out["verbs"][name] = {
          {"works", name_of(verb.ability)}, {"text", text_or_null(verb.text)}, {"rest", text_or_null(verb.rest)}};
  return out.dump(2) + "\n";
}

}  // namespace panpipe::cli
