// The word of a trainer behind `import` and `export`, with its aliases.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

#include "costmodel/scenario/trainer.hpp"

namespace panpipe::cli {

// `summary` may hold {}, for the trainer's title.
inline CLI::App* add_trainer_word(CLI::App& verb, const std::string& name, const std::string& summary) {
  const Trainer trainer = load_trainer(name);
  CLI::App* word = verb.add_subcommand(name, fmt::format(fmt::runtime(summary), trainer.title));
  for (const std::string& alias : trainer.aliases) word->alias(alias);
  return word;
}

}  // namespace panpipe::cli
