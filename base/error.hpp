// The four kinds of failure, and the exit code of each. Libraries throw these and never print or exit;
// only main() turns them into text.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace panpipe {

enum class ExitCode { Done = 0, CheckFailed = 1, Input = 2, MachineCannot = 3, Bug = 70 };

// The kinds of faults, for callers and tests that act on them. Wording may change, codes do not.
namespace code {
inline constexpr std::string_view kInvalid = "invalid";         // any other
inline constexpr std::string_view kUnknownKey = "unknown-key";  // a key, column or option that does not exist
inline constexpr std::string_view kMissingKey = "missing-key";
inline constexpr std::string_view kRepeated = "repeated";         // given twice
inline constexpr std::string_view kUnknownName = "unknown-name";  // a word that is none of the known ones
inline constexpr std::string_view kWrongType = "wrong-type";      // a list where a map is expected
inline constexpr std::string_view kNotANumber = "not-a-number";   // or no quantity of this unit
inline constexpr std::string_view kOutOfRange = "out-of-range";
inline constexpr std::string_view kConflict = "conflict";  // two values that exclude each other
inline constexpr std::string_view kNoFile = "no-file";     // missing or unreadable
inline constexpr std::string_view kNotText = "not-text";   // bytes that are no text
inline constexpr std::string_view kSyntax = "syntax";      // no YAML, JSON, TOML, CSV
inline constexpr std::string_view kEmpty = "empty";
}  // namespace code

// One fault in the user's input. Parts that do not apply are empty.
struct Diagnostic {
  std::string message;                     // what is wrong, without place and help
  std::string help = {};                   // what to write instead
  std::string key = {};                    // path of the key at fault: "parallel.tensor"
  std::string place = {};                  // "a.yaml:4:3", "--set batch.micro=4"
  std::string_view code = code::kInvalid;  // one of the above
  std::string file = {};                   // as the user named it; "--set" for an override
  int line = 0, column = 0;                // from 1; 0 = no place known
  std::string excerpt = {};                // the source line, and a line with a caret under it
  std::string override_text = {};          // "batch.micro=4" where an override is at fault
  bool rendered = false;                   // `message` is the text() of another process

  // The complete message, without a final newline:
  //   place: error: message
  //     at key
  //       4 | source line
  //         |        ^
  //     help: what to write instead
  std::string text() const;
  bool operator==(const Diagnostic&) const = default;
};

// The user's input is wrong. Exit code 2. Holds up to 20 diagnostics.
class InputError : public std::runtime_error {
 public:
  explicit InputError(std::vector<Diagnostic> diagnostics);
  // A fault without a place, such as a wrong command-line option.
  explicit InputError(const std::string& message, const std::string& help = "", std::string_view code = code::kInvalid);
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

// A check failed or no answer exists, such as a deadlocking schedule or no feasible plan. Exit code 1.
class NoAnswer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The input is right but this machine cannot do it: no GPU, no executor in this build, an unwritable file. Exit code 3.
class MachineError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A bug of ours. Exit code 70.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void internal_error(const char* file, int line, const char* expression, const std::string& message);

}  // namespace panpipe

// States a condition that must hold. A violation is a bug of Panpipe, never the user's fault.
#define PANPIPE_CHECK(condition, message)                                                 \
  do {                                                                                    \
    if (!(condition)) ::panpipe::internal_error(__FILE__, __LINE__, #condition, message); \
  } while (false)
