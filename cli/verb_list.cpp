// panpipe list KIND: the names that a scenario may use, each with a line, and on request the source of its numbers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "app/lists.hpp"
#include "base/text/text_table.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"

namespace panpipe::cli {
namespace {

// Up to the first semicolon: the document has the whole.
std::string first_part(const std::string& text) { return text.substr(0, text.find(';')); }

std::string list_text(const app::ListKind& kind, bool sources, const TextStyle& style) {
  const std::vector<app::ListedItem> items = kind.items();
  TextTable table({"<", "<"}, 0);
  for (const app::ListedItem& item : items) {
    table.row({item.name, item.line});
    if (sources && !item.source.empty()) table.row({"", "source: " + first_part(item.source)});
  }
  return table.text(style) +
         wrapped(fmt::format("{} {}; a scenario names one as {}\n", items.size(), kind.name, kind.key), style.width) +
         (kind.last_line == nullptr ? "" : wrapped(kind.last_line() + "\n", style.width));
}

std::string kinds_text() {
  TextTable table({"<", "", "<"}, 0);
  for (const app::ListKind& kind : app::list_kinds()) table.row({kind.name, std::to_string(kind.items().size()), kind.key});
  return table.text() + "panpipe list KIND shows one of them\n";
}

}  // namespace

void add_list_verb(CLI::App& sub, std::function<int()>& run) {
  struct Settings {
    std::string kind;
    bool sources = false, json = false;
  };
  auto settings = std::make_shared<Settings>();
  sub.add_option("KIND", settings->kind,
                 fmt::format("{}; without it, how many there are of each", fmt::join(app::list_kind_names(), ", ")));
  sub.add_flag("--sources", settings->sources, "also where the numbers of each come from");
  sub.add_flag("--json", settings->json, "print the document panpipe-list/1");
  run = [settings] {
    if (settings->kind.empty()) {
      print(settings->json ? app::list_kinds_json() : kinds_text());
      return 0;
    }
    const app::ListKind& kind = app::list_kind_named(settings->kind);
    print(settings->json ? to_json(kind) : list_text(kind, settings->sources, style_of_output()));
    return 0;
  };
}

}  // namespace panpipe::cli
