// panpipe arena: schedules compared at one size.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "app/arena.hpp"
#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "cli/arena_submission.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "study/arena/arena.hpp"
#include "study/arena/certificate.hpp"

namespace panpipe::cli {
namespace {

struct ArenaSettings : app::ArenaRequest {
  std::vector<std::string> named;  // of `entrants`
  std::string submitted, output, order, certificate;
  study::Submission submission;
  bool json = false;
};

void check_files(ArenaSettings& settings) {
  const bool names = !settings.named.empty() || !settings.submitted.empty();
  if (!settings.output.empty()) check_outputs({settings.output}, kAdvice);
  if (!settings.order.empty()) {
    check_outputs({settings.order}, "choose another file with --order");
    if (!names) throw InputError("--order writes the order of the first schedule that is named: name one");
  }
  if (!settings.submitted.empty() && settings.certificate.empty())
    settings.certificate = std::filesystem::path(settings.submitted).stem().string() + ".certificate.json";
  if (!settings.certificate.empty()) {
    check_outputs({settings.certificate}, "choose another file with --certificate");
    if (!names) throw InputError("--certificate is about the first schedule that is named: name one");
  } else if (!settings.submission.by.empty() || !settings.submission.reference.empty()) {
    throw InputError("--by and --reference stand in a certificate: name its file with --certificate");
  }
}

// Exits 1 where a schedule that was named is not legal.
int show_arena(ArenaSettings& settings) {
  check_files(settings);
  if (!settings.submitted.empty()) {
    Submitted submitted = read_submission(settings.submitted, settings, settings.submission);
    settings.entrants.push_back(std::move(submitted.entrant));
    settings.submission = std::move(submitted.submission);
  }
  for (const std::string& text : settings.named) settings.entrants.push_back(study::read_entrant(text));
  const std::size_t named = settings.entrants.size();
  const study::Arena judged = app::judge(settings);
  settings.json ? print(study::to_json(judged)) : show(study::to_table(judged));
  if (!settings.output.empty()) write_file(settings.output, study::to_page(judged), kAdvice);
  const auto is_legal = [](const study::Judged& one) { return one.legal(); };
  const std::vector<study::Judged>& first = judged.rounds.front().judged;
  if (!settings.submitted.empty() && !is_legal(first.front())) return static_cast<int>(ExitCode::CheckFailed);
  if (!settings.order.empty())
    write_file(settings.order,
               to_csv(study::order_of(judged.request, judged.request.entrants.front(), judged.request.ratios.front()), false),
               "choose another file with --order");
  if (!settings.certificate.empty()) {
    write_file(settings.certificate, study::to_certificate(judged, settings.submission),
               "choose another file with --certificate");
    if (!settings.submitted.empty())
      print_note(fmt::format("the certificate is in {}: tools/check-certificate counts it again\n", settings.certificate));
  }
  const bool legal = std::all_of(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(named), is_legal);
  return legal ? 0 : static_cast<int>(ExitCode::CheckFailed);
}

}  // namespace

void add_arena_verb(CLI::App& sub, std::function<int()>& run) {
  auto settings = std::make_shared<ArenaSettings>();
  sub.add_option("SCHEDULE", settings->named,
                 "CSV files with orders, or families, as in interleaved-1f1b,stages_per_rank=4; judged beside all families");
  sub.add_option("--ranks", settings->ranks, "number of pipeline ranks (default: those of the file, or 4)");
  sub.add_option("--microbatches", settings->microbatches, "number of microbatches in a step (default: those of the file, or 8)");
  sub.add_option("--cost-ratios", settings->ratios,
                 "even (default), 8k, 32k, 8k-recompute, 8k-lora, 8k-vocabulary, or F:I:W; then :head=H, :copy=C, "
                 ":lengths=2/1/1; with commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  sub.add_option("--clusters", settings->clusters,
                 fmt::format("clusters with commas (default: {}), or none", fmt::join(study::kDefaultClusters, ",")))
      ->delimiter(',')
      ->allow_extra_args(false);
  sub.add_flag("--alone", settings->alone, "leave out the families that are not named");
  add_typed(sub, "--backend", settings->backend, "flow (default): Panpipe's own max-min flow solver, or simgrid", "simgrid|flow");
  sub.add_option("--threads", settings->threads, "number of schedules at a time (default: all cores)")
      ->check(CLI::Range(1, 4096));
  sub.add_flag("--json", settings->json, "print the document panpipe-arena/1");
  add_typed(sub, "-o", settings->output, "write the page into this file", "FILE.html");
  add_typed(sub, "--order", settings->order, "write the order of the first schedule that is named, as CSV", "FILE.csv");
  add_typed(sub, "--certificate", settings->certificate,
            "write the order of the first schedule that is named with its step, memory and bound, to be counted again by others",
            "FILE.json");
  add_typed(sub, "--submit", settings->submitted,
            "an order that is handed in: a CSV file with '# by:' and '# reference:', or a Python file with BY, REFERENCE "
            "and order(ranks, microbatches), which is run in python3 with your rights; writes its certificate",
            "FILE");
  sub.add_option("--by", settings->submission.by, "who made the order, for the certificate");
  sub.add_option("--reference", settings->submission.reference, "where the order is described, for the certificate");
  run = [settings] { return show_arena(*settings); };
}

}  // namespace panpipe::cli
