// The four kinds of failure, and the exit code of each. Libraries throw these and never print or exit;
// only main() turns them into text.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace panpipe {

enum class ExitCode { Done = 0, CheckFailed = 1, Input = 2, MachineCannot = 3, Bug = 70 };

// Which fault it is, where a caller acts on it: words may change, codes do not.
enum class FaultCode : unsigned char { Other, UnknownKey };

// One fault in the user's input. `text` is the whole, final text, several lines:
//   file:line:column: error: message
//     at key.path
//       4 | source line
//         |        ^
//     help: what to write instead
// (the parts that do not apply are absent).
struct Diagnostic {
  std::string file;                // as the user named it; "--set" for an override; empty when there is no file
  int line = 0;                    // from 1; 0 = no place
  int column = 0;                  // from 1
  std::string message;             // without place
  std::string text;                // the rendered whole, without a final newline
  std::string place = {};          // what `text` begins with: "a.yaml:4:3", "--set batch.micro=4"; empty when nobody stated it
  std::string override_text = {};  // "batch.micro=4" where an override is at fault, else empty
  FaultCode code = FaultCode::Other;
};

// The same fault, shown at another place. It needs a stated place.
Diagnostic shown_at(Diagnostic diagnostic, const std::string& place);

// The user's input is wrong. Exit code 2. Holds up to 20 diagnostics.
class InputError : public std::runtime_error {
 public:
  explicit InputError(std::vector<Diagnostic> diagnostics);
  explicit InputError(const std::string& message);  // a fault without a place (a wrong command-line option, say)
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

// A check failed or no answer exists (a deadlocking schedule, no feasible plan). Exit code 1.
class NoAnswer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The input is right but this machine cannot: no GPU, no executor in this build, an unwritable file. Exit code 3.
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

// States what must hold; a violation is our bug, never the user's.
#define PANPIPE_CHECK(condition, message)                                                 \
  do {                                                                                    \
    if (!(condition)) ::panpipe::internal_error(__FILE__, __LINE__, #condition, message); \
  } while (false)
