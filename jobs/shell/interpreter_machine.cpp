// The machine that #SBATCH lines state.
#include <algorithm>

#include "jobs/shell/interpreter.hpp"

namespace panpipe::jobs {
namespace {

struct MachineLine {
  const char* option;
  const char* letter;  // -N
  std::vector<std::string> variables;
};

const std::vector<MachineLine>& machine_lines() {
  static const std::vector<MachineLine> kLines = {
      {"--nodes", "-N", {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}},
      {"--ntasks", "-n", {"SLURM_NTASKS", "SLURM_NPROCS"}},
      {"--ntasks-per-node", "", {"SLURM_NTASKS_PER_NODE"}},
      {"--cpus-per-task", "-c", {"SLURM_CPUS_PER_TASK"}},
      {"--gpus-per-node", "", {"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"}},
      {"--gres", "", {"SLURM_GPUS_ON_NODE"}},
      {"--job-name", "-J", {"SLURM_JOB_NAME"}},
      {"--partition", "-p", {"SLURM_JOB_PARTITION"}},
  };
  return kLines;
}

}  // namespace

// #SBATCH lines state the machine: Slurm sets variables by them.
void Interpreter::state_machine(const std::string& text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (line.rfind("#SBATCH", 0) == 0) state_machine_line(text, begin + 7, begin + std::min(line.find(" #"), line.size()));
    if (!line.empty() && line[0] != '#') break;
    begin = end + 1;
  }
}

void Interpreter::state_machine_line(const std::string& text, std::size_t begin, std::size_t end) {
  const auto blank = [&](std::size_t i) { return text[i] == ' ' || text[i] == '\t'; };
  while (begin < end && blank(begin)) ++begin;
  std::size_t stop = begin;
  while (stop < end && text[stop] != '=' && !blank(stop)) ++stop;
  const std::string option = text.substr(begin, stop - begin);
  while (stop < end && (text[stop] == '=' || blank(stop))) ++stop;
  std::size_t last = stop;
  while (last < end && !blank(last)) ++last;
  for (const MachineLine& known : machine_lines()) {
    if (option != known.option && (known.letter[0] == '\0' || option != known.letter)) continue;
    std::size_t first = stop;
    if (option.rfind("--g", 0) == 0) {  // gpu:a100:8
      const std::size_t colon = text.find_last_of(':', last - 1);
      if (colon != std::string::npos && colon >= stop && last > stop) first = colon + 1;
    }
    if (first >= last) continue;
    ShellPiece piece;
    piece.text = text.substr(first, last - first), piece.file = 0, piece.offset = first;
    for (const std::string& name : known.variables) {
      if (options_.defines.contains(name)) continue;
      auto variable = std::make_shared<ScriptVariable>();
      variable->exported = true;
      variable->text.append(piece);
      state_.variables.set(name, variable);
    }
  }
}

}  // namespace panpipe::jobs
