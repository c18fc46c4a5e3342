// panpipe: one table of verbs, and the one place where failures become text and exit codes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <deque>
#include <functional>
#include <sstream>
#include <string>

#include "app/failure.hpp"
#include "base/error.hpp"
#include "base/files/input_registry.hpp"
#include "base/text/characters.hpp"
#include "base/text/did_you_mean.hpp"
#include "base/version.hpp"
#include "cli/build_info.hpp"
#include "cli/output.hpp"
#include "cli/standard_input.hpp"
#include "cli/verbs.hpp"
#include "costmodel/prediction/experiment.hpp"

namespace {

using namespace panpipe;

struct Verb {
  const char* name;
  const char* summary;
  const char* examples;  // help starts with them
  void (*add)(CLI::App& sub, std::function<int()>& run);
};

constexpr Verb kVerbs[] = {
    {"check", "read a scenario or a cluster file and show how it is understood: values, links, costs",
     "  panpipe check scenarios/examples/gpt2-large-rtx3090x8.yaml\n"
     "  panpipe check scenarios/clusters/rtx3090x8.yaml --links\n",
     cli::add_check_verb},
    {"schedule", "print, draw, convert and check schedules",
     "  panpipe schedule 1f1b --ranks 4 --microbatches 8 --draw\n"
     "  panpipe schedule my_order.csv --costs F=10,I=12,W=8,comm=1 --json\n",
     cli::add_schedule_verb},
    {"arena", "judge schedules beside each other: legality, transfers, bubble, memory, bounds, step on clusters",
     "  panpipe arena my_order.csv\n"
     "  panpipe arena zb-h1 --ranks 8 --microbatches 16 --cost-ratios even,32k -o arena.html\n",
     cli::add_arena_verb},
    {"estimate", "predict a training step quickly, as if links were never shared",
     "  panpipe estimate scenarios/examples/gpt2-large-rtx3090x8.yaml\n"
     "  panpipe estimate my.yaml --set batch.micro=4 --json\n",
     cli::add_estimate_verb},
    {"simulate", "predict a training step on the topology, where transfers share links",
     "  panpipe simulate scenarios/examples/gpt2-large-rtx3090x8.yaml -o out/gpt2\n"
     "  panpipe simulate my.yaml --backend flow --set cluster=clusters/rtx3090x8-nobridge.yaml\n",
     cli::add_simulate_verb},
    {"plan", "search the best cuts, schedule and degrees; with --for TRAINER what that trainer can run; say how good yours is",
     "  panpipe plan my.yaml --open --for megatron -o plan.yaml\n"
     "  panpipe plan my.yaml --set schedule=auto --set partition=auto --json\n",
     cli::add_plan_verb},
    {"sweep", "predict a grid over any keys of a scenario, on all cores; table and plots",
     "  panpipe sweep my.yaml --over schedule=1f1b,zb-h1 --over parallel.pipeline=2,4,8\n"
     "  panpipe sweep my.yaml --over cluster=clusters/rtx3090x8.yaml,clusters/rtx3090x8-nobridge.yaml --engine simulate -o "
     "out/bridges\n",
     cli::add_sweep_verb},
    {"compare", "compare two results: metrics, actions, and the reasons why devices waited",
     "  panpipe compare out/estimated out/measured --tolerance step_time_s=5%\n"
     "  panpipe compare out/estimated out/measured -o both.json\n",
     cli::add_compare_verb},
    {"report", "write a page about one result, or about two over each other: drawing, breakdown, hints",
     "  panpipe report out/simulated -o step.html\n"
     "  panpipe report out/estimated out/measured -o both.html\n",
     cli::add_report_verb},
    {"profile", "measure on this machine how long units, messages, sums and the optimizer take",
     "  panpipe profile my.yaml -o my-profile.yaml --ranks 2\n"
     "  panpipe estimate my.yaml --set profile=my-profile.yaml\n",
     cli::add_profile_verb},
    {"measure-device", "measure what a card, or this CPU, reaches; write a device file with its calibration",
     "  panpipe measure-device -o my-card.yaml\n"
     "  panpipe estimate my.yaml --set cluster.device=my-card.yaml\n",
     cli::add_measure_device_verb},
    {"import", "turn the inputs of other tools into scenarios and cluster files",
     "  panpipe import megatron train.sh --gpus 64 -o my.yaml\n"
     "  panpipe import topology topo.txt --device h100-sxm -o cluster.yaml\n"
     "  panpipe import kineto trace.json.gz --scenario my.yaml\n"
     "  panpipe import log train.log --cluster h100x8 --row runs.csv\n"
     "  panpipe import memory snapshot.pickle --scenario my.yaml\n",
     cli::add_import_verb},
    {"forecast", "say from the log of a run under way when it will end, what it will cost, and whether it runs as it should",
     "  panpipe forecast train.log\n"
     "  panpipe forecast train.log --scenario my.yaml --json\n",
     cli::add_forecast_verb},
    {"export", "write a plan for another trainer: Megatron-LM, torchtitan, DeepSpeed, torch.distributed.pipelining",
     "  panpipe plan my.yaml --for megatron -o plan.yaml\n"
     "  panpipe export megatron my.yaml --plan plan.yaml -o arguments.sh\n",
     cli::add_export_verb},
    {"validate", "predict measured runs, and say how far predictions can be trusted",
     "  panpipe validate runs.csv --tolerance mean=5%\n"
     "  panpipe validate runs.csv --calibration mine.yaml --json\n",
     cli::add_validate_verb},
    {"fit", "fit a device calibration to measured runs by robust least squares",
     "  panpipe fit runs.csv --device A100-80G-SXM -o a100.yaml\n"
     "  panpipe fit runs.csv --device RTX3090 --only launch,step -o mine.yaml\n",
     cli::add_fit_verb},
    {"run", "train for real over a pipeline, and time it",
     "  panpipe run scenarios/runs/gpt-small-cpu-x2.yaml --steps 10\n"
     "  panpipe run my.yaml --steps 10 --transport local\n",
     cli::add_run_verb},
    {"new", "write a scenario to start from, with a comment on every line",
     "  panpipe new --model llama2-7b --cluster h100x8 -o my.yaml\n"
     "  panpipe new | panpipe estimate -\n",
     cli::add_new_verb},
    {"list",
     "list the models, clusters, devices, schedules, trainers, frameworks, calibrations or prices that a scenario may name",
     "  panpipe list models\n"
     "  panpipe list clusters --json\n",
     cli::add_list_verb},
    {"schema", "print what a scenario, or what a verb prints with --json, may hold as a JSON Schema",
     "  panpipe schema > scenario.schema.json\n"
     "  panpipe schema result\n"
     "  sed -i '1i # yaml-language-server: $schema=scenario.schema.json' my.yaml\n",
     cli::add_schema_verb},
    {"support", "say what of a scenario was ever compared with measured runs, and how sure its prediction therefore is",
     "  panpipe support scenarios/examples/gpt3-175b-a100x64.yaml\n"
     "  panpipe support my.yaml --json\n",
     cli::add_support_verb},
    {"evidence", "say which measurement would narrow the interval of a prediction most, and what it costs",
     "  panpipe evidence next my.yaml\n"
     "  panpipe evidence next my.yaml --evidence run.log --json\n",
     cli::add_evidence_verb},
    {"doctor", "say what this machine has, what each verb can do here, and how to get the rest",
     "  panpipe doctor\n"
     "  panpipe doctor --json\n",
     cli::add_doctor_verb},
    {"selftest", "try whether this machine trains as it should; say what is wrong, and write a report",
     "  panpipe selftest\n"
     "  panpipe selftest --device cpu --quick -o report\n",
     cli::add_selftest_verb},
    {"version", "print the version and the parts that are built in",
     "  panpipe version\n"
     "  panpipe --version\n",
     cli::add_version_verb},
    {"completion", "print what makes a shell complete verbs, options and names: bash, zsh, fish",
     "  source <(panpipe completion bash)\n"
     "  panpipe completion fish > ~/.config/fish/completions/panpipe.fish\n",
     cli::add_completion_verb},
    {"manual", "print a man page", "  panpipe manual estimate | man -l -\n", cli::add_manual_verb},
};

const Verb* find_verb(const std::string& name) {
  for (const Verb& verb : kVerbs)
    if (name == verb.name) return &verb;
  return nullptr;
}

// A verb's help starts with its examples.
class HelpWithExamples : public CLI::Formatter {
  std::string make_description(const CLI::App* app) const override {
    const Verb* verb = find_verb(app->get_name());
    return (verb ? "Examples:\n" + std::string(verb->examples) + "\n" : "") + app->get_description() + "\n";
  }
};

int report(const std::string& text, ExitCode code) {
  std::fputs((without_controls(text, "\n\t") + "\n").c_str(), stderr);
  return static_cast<int>(code);
}

// CLI11's own sentence does not suggest; an unknown verb deserves a "did you mean".
std::string unknown_verb(const std::string& name) {
  std::vector<std::string> names;
  for (const Verb& verb : kVerbs) names.emplace_back(verb.name);
  return fmt::format("panpipe: error: unknown verb '{}'{}\n  verbs: {}", name, suggestion(name, names), fmt::join(names, ", "));
}

// The same of the word behind a verb that takes one, as `import TRAINER` does; empty where the word is known.
std::string unknown_subverb(const CLI::App& verb, const std::string& word) {
  std::vector<std::string> names, words;
  bool known_word = verb.get_require_subcommand_min() == 0 || word[0] == '-';
  for (const CLI::App* known : verb.get_subcommands({})) {
    names.push_back(known->get_name());
    words.push_back(known->get_name());
    for (const std::string& alias : known->get_aliases()) words.push_back(alias);
    known_word |= known->check_name(word);  // or an alias of it
  }
  if (known_word) return "";
  return fmt::format("panpipe {0}: error: there is no '{1}'{2}\n  known: {3}\n  see panpipe {0} --help", verb.get_name(), word,
                     suggestion(word, words), fmt::join(names, ", "));
}

// "panpipe help [VERB]": what --help prints.
int help(CLI::App& app, const std::string& verb) {
  if (!verb.empty() && !find_verb(verb)) return report(unknown_verb(verb), ExitCode::Input);
  cli::print(verb.empty() ? app.help() : app.get_subcommand(verb)->help("panpipe"));
  return static_cast<int>(ExitCode::Done);
}

// ", did you mean '--json'?" for the first word of the command line that looks like an option and is none.
std::string suggested_option(const CLI::App& verb, int argc, char** argv) {
  std::vector<std::string> known;
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (int i = 2; i < argc; ++i) {
    const std::string word = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
    if (word.rfind("--", 0) != 0 || std::find(known.begin(), known.end(), word) != known.end()) continue;
    return suggestion(word, known);
  }
  return "";
}

// CLI11 names the words that it has no use for in reverse.
std::string fault_of(const CLI::App& where, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return error.what();
  std::string words;
  for (const std::string& word : where.remaining(true)) words += " " + word;
  return "not expected here:" + words;
}

int run(int argc, char** argv) {
  CLI::App app{"Predicts, simulates and explains pipeline-parallel training steps.", "panpipe"};
  app.set_version_flag("--version", [] {
    std::string text = cli::version_text();
    text.pop_back();  // CLI11 ends the line
    return text;
  });
  app.require_subcommand(0, 1);
  app.formatter(std::make_shared<HelpWithExamples>());
  app.get_formatter()->column_width(34);
  std::deque<std::function<int()>> runs;
  const std::string first = argc > 1 ? argv[1] : "";
  const std::string wanted = first == "help" && argc > 2 ? argv[2] : first;
  // Options take time to declare: of other verbs only where these list them, or where options stand before the verb.
  const bool all = wanted == "completion" || wanted == "manual" || (argc > 2 && first.starts_with('-'));
  for (const Verb& verb : kVerbs) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.summary);
    auto& body = runs.emplace_back();
    if (all || wanted == verb.name) verb.add(*sub, body);
  }
  if (first == "help") return help(app, argc > 2 ? argv[2] : "");
  if (argc > 1 && argv[1][0] != '-' && !find_verb(first)) return report(unknown_verb(first), ExitCode::Input);
  if (argc > 2 && argv[1][0] != '-')
    if (const std::string fault = unknown_subverb(*app.get_subcommand(argv[1]), argv[2]); !fault.empty())
      return report(fault, ExitCode::Input);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    std::ostringstream text;
    const int code = app.exit(asked, text, text);
    cli::print(text.str());
    return code;
  } catch (const CLI::ParseError& error) {
    const CLI::App* where = app.get_subcommands().empty() ? &app : app.get_subcommands().front();
    const std::string name = where == &app ? "panpipe" : "panpipe " + where->get_name();
    return report(name + ": error: " + fault_of(*where, error) + (where == &app ? "" : suggested_option(*where, argc, argv)) +
                      "\n  see " + name + " --help",
                  ExitCode::Input);
  }
  std::size_t index = 0;
  for (const Verb& verb : kVerbs) {
    if (app.got_subcommand(verb.name)) return runs[index]();
    ++index;
  }
  cli::print(app.help());
  return static_cast<int>(ExitCode::Done);
}

int run_to_exit_code(int argc, char** argv) {
  try {
    const InputRegistry inputs;
    cli::name_standard_streams(argc, argv);
    return run(argc, argv);
  } catch (...) {
    const app::Failure failure = app::failure_of(std::current_exception());
    return report(failure.text, failure.code);
  }
}

}  // namespace

int main(int argc, char** argv) {
  guard_standard_streams();
  return with_standard_output(run_to_exit_code(argc, argv), [](const std::string& why) {
    report("panpipe: this machine cannot: " + why, ExitCode::MachineCannot);
  });
}
