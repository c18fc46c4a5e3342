// panpipe arena: schedules beside each other.
#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "sim/simulate.hpp"
#include "study/arena/arena.hpp"
#include "study/arena/arena_request.hpp"

namespace panpipe::cli {
namespace {

struct ArenaSettings {
  std::vector<std::string> entrants, ratios, clusters;
  std::optional<int> ranks, microbatches;
  std::string output, order, backend = "flow";
  bool json = false, alone = false;
  int threads = 0;
};

arena::ArenaRequest request_for(const ArenaSettings& settings) {
  arena::ArenaAsked asked{{}, settings.ranks, settings.microbatches, settings.ratios, settings.clusters, settings.alone};
  for (const std::string& text : settings.entrants) asked.entrants.push_back(arena::read_entrant(text));
  arena::ArenaRequest request = arena::request_of(std::move(asked));
  request.threads = settings.threads;
  const sim::Options options{.backend = sim::backend_named(settings.backend)};
  request.simulate = [options](const TaskGraph& graph, const Cluster& cluster) { return sim::simulate(graph, cluster, options); };
  return request;
}

// Exits 1 where a schedule that was named is not legal.
int show_arena(const ArenaSettings& settings) {
  if (!settings.output.empty()) check_outputs({settings.output}, kAdvice);
  if (!settings.order.empty()) {
    check_outputs({settings.order}, "choose another file with --order");
    if (settings.entrants.empty()) throw InputError("--order writes the order of the first schedule that is named: name one");
  }
  const arena::Arena judged = arena::judge(request_for(settings));
  if (settings.json)
    print(arena::to_json(judged));
  else
    show(arena::to_table(judged));
  if (!settings.output.empty()) write_file(settings.output, arena::to_page(judged), kAdvice);
  if (!settings.order.empty())
    write_file(settings.order,
               to_csv(arena::order_of(judged.request, judged.request.entrants.front(), judged.request.ratios.front()), false),
               "choose another file with --order");
  for (std::size_t i = 0; i < settings.entrants.size(); ++i)
    if (!judged.rounds.front().judged[i].legal()) return static_cast<int>(ExitCode::CheckFailed);
  return 0;
}

}  // namespace

void add_arena_verb(CLI::App& sub, std::function<int()>& run) {
  auto settings = std::make_shared<ArenaSettings>();
  sub.add_option("SCHEDULE", settings->entrants,
                 "CSV files with orders, or families, as in interleaved-1f1b,stages_per_rank=4; judged beside all families");
  sub.add_option("--ranks", settings->ranks, "number of pipeline ranks (default: those of the file, or 4)");
  sub.add_option("--microbatches", settings->microbatches, "number of microbatches in a step (default: those of the file, or 8)");
  sub.add_option("--cost-ratios", settings->ratios, "even (default), 8k, 32k, 8k-recompute, 8k-lora, or F:I:W; with commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  sub.add_option("--clusters", settings->clusters,
                 "clusters with commas (default: rtx3090x8-nobridge,dgx-a100-80g,h100x8), or none")
      ->delimiter(',')
      ->allow_extra_args(false);
  sub.add_flag("--alone", settings->alone, "leave out the families that are not named");
  sub.add_option("--backend", settings->backend, "flow (default): Panpipe's own max-min flow solver, or simgrid")
      ->type_name("simgrid|flow");
  sub.add_option("--threads", settings->threads, "number of schedules at a time (default: all cores)")
      ->check(CLI::Range(1, 4096));
  sub.add_flag("--json", settings->json, "print the document panpipe-arena/1");
  sub.add_option("-o", settings->output, "write the page into this file")->type_name("FILE.html");
  sub.add_option("--order", settings->order, "write the order of the first schedule that is named, as CSV")
      ->type_name("FILE.csv");
  run = [settings] { return show_arena(*settings); };
}

}  // namespace panpipe::cli
