// panpipe manual: man pages of the program and of its verbs, made from their --help. The build runs it when it installs.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "base/version.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "costmodel/prediction/experiment.hpp"

namespace panpipe::cli {
namespace {

// Text as roff takes it literally: no hyphenation of options, no line that starts like a request.
std::string roff(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool starts_line = i == 0 || text[i - 1] == '\n';
    if (starts_line && (text[i] == '.' || text[i] == '\'')) out += "\\&";
    if (text[i] == '\\')
      out += "\\e";
    else if (text[i] == '-')
      out += "\\-";
    else
      out += text[i];
  }
  return out;
}

// The help of a verb starts with its examples: everything up to the first empty line.
std::string examples_of(const CLI::App& verb) {
  const std::string help = verb.help("panpipe"), title = "Examples:\n";
  const std::size_t begin = help.find(title);
  if (begin == std::string::npos) return "";
  const std::size_t first = begin + title.size();
  return help.substr(first, help.find("\n\n", first) - first);
}

void add_options(const CLI::App& verb, std::string& page) {
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = option->get_positional() && option->get_lnames().empty() && option->get_snames().empty()
                                 ? option->get_name(true)
                                 : option->get_name(false, true);
    std::string written;
    for (const char c : name) written += c == ',' ? std::string(", ") : std::string(1, c);
    const bool takes_value = option->get_expected_max() > 0 && !option->get_type_name().empty();
    page += ".TP\n.B " + roff(written) + (takes_value && name.starts_with("-") ? " " + roff(option->get_type_name()) : "") +
            "\n" + roff(option->get_description()) + "\n";
  }
}

std::string page_of(const CLI::App& app, const CLI::App* verb) {
  const std::string name = verb == nullptr ? "panpipe" : "panpipe-" + verb->get_name();
  std::string title;
  for (const char c : name) title += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  const CLI::App& described = verb == nullptr ? app : *verb;
  std::string page = ".TH " + title + " 1 \"\" \"panpipe " + kVersion + "\" \"User Commands\"\n.SH NAME\n" + roff(name) +
                     " \\- " + roff(described.get_description()) + "\n.SH SYNOPSIS\n.B panpipe";
  const auto verbs = app.get_subcommands([](const CLI::App* sub) { return !sub->get_group().empty(); });
  if (verb == nullptr) {
    page += "\n.I VERB\n.RI [ OPTIONS ]\n.SH VERBS\n";
    for (const CLI::App* each : verbs)
      page += ".TP\n.BR panpipe\\-" + each->get_name() + " (1)\n" + roff(each->get_description()) + "\n";
    page += ".SH OPTIONS\n";
    add_options(app, page);
    page +=
        ".SH EXIT STATUS\n"
        ".TP\n0\nDone.\n"
        ".TP\n1\nNo answer, or a check that was asked for failed.\n"
        ".TP\n2\nThe input or the command line is wrong; the message names the place and the remedy.\n"
        ".TP\n3\nThis machine cannot do it: the message says why.\n"
        ".TP\n70\nA bug of Panpipe.\n"
        ".SH ENVIRONMENT\n"
        ".TP\n.B PANPIPE_DATA\nThe folder of clusters, devices and scenarios that is used in place of the shipped one.\n"
        ".TP\n.B PANPIPE_LIBTORCH\nThe folder of the torch package whose LibTorch\n.BR panpipe\\-run (1),\n"
        ".BR panpipe\\-profile (1)\nand\n.BR panpipe\\-selftest (1)\nload.\n"
        ".SH FILES\n.TP\n.I share/panpipe\nof the prefix: the shipped scenarios, clusters, devices, frameworks, "
        "calibrations and prices.\n"
        ".TP\n.I share/doc/panpipe\nof the prefix: the documents.\n";
    return page;
  }
  page += " " + roff(verb->get_name());
  const auto parts = verb->get_subcommands([](const CLI::App* sub) { return !sub->get_group().empty(); });
  if (!parts.empty()) page += "\n.I " + std::string("KIND");
  page += "\n.RI [ OPTIONS ]\n";
  for (const CLI::Option* option : verb->get_options())
    if (option->get_positional()) page += ".I " + roff(option->get_name(true)) + "\n";
  if (const std::string examples = examples_of(*verb); !examples.empty())
    page += ".SH EXAMPLES\n.nf\n" + roff(examples) + "\n.fi\n";
  page += ".SH OPTIONS\n";
  add_options(*verb, page);
  for (const CLI::App* part : parts) {
    page += ".SS " + roff(verb->get_name() + " " + part->get_name()) + "\n" + roff(part->get_description()) + "\n";
    add_options(*part, page);
  }
  return page + ".SH SEE ALSO\n.BR panpipe (1)\n";
}

}  // namespace

void add_manual_verb(CLI::App& sub, std::function<int()>& run) {
  auto name = std::make_shared<std::string>();
  sub.add_option("VERB", *name, "the page of this verb instead of the program's");
  run = [name, &sub] {
    const CLI::App& app = *sub.get_parent();
    const auto verbs = app.get_subcommands([&](const CLI::App* each) { return each->get_name() == *name; });
    if (!name->empty() && verbs.empty()) throw InputError("panpipe manual: there is no verb '" + *name + "'");
    print(page_of(app, name->empty() ? nullptr : verbs.front()));
    return 0;
  };
}

}  // namespace panpipe::cli
