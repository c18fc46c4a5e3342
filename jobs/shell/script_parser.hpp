// Parses a shell script: bash's grammar, without `select`, `coproc` and aliases.
#pragma once

#include <set>
#include <string>

#include "jobs/shell/script_files.hpp"
#include "jobs/shell/script_tree.hpp"

namespace panpipe::jobs {

// What the parsers of a script's texts share.
struct ParseContext {
  const ScriptFiles& files;
  ScriptBudget& budget;
  std::set<std::string> assigned = {};  // every name that some text assigns
};

// A script's commands, one complete line at a time, as bash reads them: what stands before a fault still has its meaning.
// Throws ScriptFault where the text is no script.
class ScriptParser {
 public:
  // `line` counts for text without a place of its own. `depth` bounds texts within texts.
  ScriptParser(const ShellText& text, ParseContext& context, int line, int depth = 0);
  bool next(CommandList& commands);  // false: the end
  CommandList all();
  // The whole text as between double quotes: a here-document, the words of eval.
  WordPointer quoted_text();

 private:
  enum class Stop { Word, Quote, Brace, Slash, Colon, Bracket, Arithmetic, End };
  struct Pending {
    WordPointer target;
    std::string end;
    bool quoted, strip;
    int line;
  };
  class Nesting;

  bool done() const { return at_ >= text_.size(); }
  char here(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool looking_at(std::string_view word) const { return text_.compare(at_, word.size(), word) == 0; }
  int line() const;
  [[noreturn]] void fault(const std::string& message) const;
  void close(std::string_view bracket, const char* opened);  // else a fault: it is not closed

  // words
  ScriptWord word(Stop stop, bool in_quotes = false);
  bool ends_word(Stop stop, int depth) const;
  void quotes(ScriptWord& word, bool in_quotes);
  void single_quotes(ScriptWord& word);
  void ansi_quotes(ScriptWord& word);
  void double_quotes(ScriptWord& word);
  void escape(ScriptWord& word, Stop stop, bool in_quotes);
  void dollar(ScriptWord& word, bool quoted);
  bool arithmetic(ScriptWord& word, bool quoted);
  void braces(ScriptWord& word, bool quoted);
  void brace_operation(ScriptPart& part, bool quoted);
  void substitution(ScriptWord& word, bool quoted);
  void backquotes(ScriptWord& word, bool quoted);
  void process(ScriptWord& word);
  void literal(ScriptWord& word, std::size_t begin, std::size_t end, bool quoted) const;
  ScriptPart part(ScriptPart::Kind kind, bool quoted) const;
  std::string parameter_name();

  // commands
  void skip_blanks();
  void skip_newlines();
  void newline();
  void here_document(Pending& pending);
  std::string reserved() const;  // the reserved word that stands here
  bool take(std::string_view reserved_word);
  void expect(std::string_view reserved_word);
  bool ends_list() const;
  CommandList list();
  void list_until(CommandList& commands, bool one_line);
  CommandPointer and_or();
  CommandPointer pipeline();
  CommandPointer command();
  std::shared_ptr<ScriptCommand> begin(ScriptCommand::Kind kind) const;
  CommandPointer simple();
  bool part_of_simple(ScriptCommand& command, bool& declares);
  std::shared_ptr<ScriptCommand> if_clause();
  std::shared_ptr<ScriptCommand> for_clause();
  void count_clause(ScriptCommand& loop);
  std::shared_ptr<ScriptCommand> while_clause();
  std::shared_ptr<ScriptCommand> case_clause();
  std::shared_ptr<ScriptCommand> compound();
  CommandPointer function(const std::string& name);
  std::shared_ptr<ScriptCommand> test_clause();
  ScriptWord regular_expression();
  bool assignment(ScriptCommand& command);
  void elements(ScriptAssignment& assignment);
  bool redirect(ScriptCommand& command);
  void redirects(ScriptCommand& command);
  void here_word(ScriptRedirect& redirect, bool strip);

  ShellSource source_;
  const std::string& text_;
  ParseContext& context_;
  int line_, depth_;
  std::size_t at_ = 0;
  std::vector<Pending> pending_;
};

// True for `export` and its like, whose words may be assignments.
bool is_declaration(const std::string& command);

// The text of a word that has only literal parts; else empty.
std::string literal_text(const ScriptWord& word);

}  // namespace panpipe::jobs
