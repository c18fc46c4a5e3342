// panpipe evidence next: which measurement would narrow the interval of a prediction most.
#include <CLI/CLI.hpp>
#include <memory>

#include "app/evidence/next_piece.hpp"
#include "cli/output.hpp"
#include "cli/predict.hpp"
#include "cli/verbs.hpp"

namespace panpipe::cli {

void add_evidence_verb(CLI::App& sub, std::function<int()>& run) {
  struct Settings : ScenarioOptions {
    bool json = false;
  };
  auto options = std::make_shared<Settings>();
  CLI::App* next = sub.add_subcommand("next", "the measurement that would narrow the interval most, with what it costs");
  add_scenario_options(*next, *options);
  add_evidence_option(*next, *options);
  next->add_flag("--json", options->json, "print the document panpipe-evidence-next/1");
  sub.require_subcommand(1);
  next->callback([options, &run] {
    run = [options] {
      const auto load = [&](const std::vector<std::string>& more) {
        std::vector<std::string> overrides = options->all_overrides();
        overrides.insert(overrides.end(), more.begin(), more.end());
        return load_scenario(options->scenario, overrides);
      };
      const app::NextPiece found = app::next_piece(options->scenario, load);
      options->json ? print(app::to_json(found)) : print(wrapped(app::to_text(found), style_of_output().width));
      return 0;
    };
  });
}

}  // namespace panpipe::cli
