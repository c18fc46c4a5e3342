// The four kinds of failure, and the exit code of each. Libraries throw these and never print or exit;
// only main() turns them into text.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace panpipe {

enum class ExitCode { Done = 0, CheckFailed = 1, Input = 2, MachineCannot = 3, Bug = 70 };

// The fault's kind, for callers that act on it. Wording may change, codes do not.
enum class FaultCode : unsigned char { Other, UnknownKey };

// One fault in the user's input. `text` is the complete message, on several lines:
//   file:line:column: error: message
//     at key.path
//       4 | source line
//         |        ^
//     help: what to write instead
// Parts that do not apply are left out.
struct Diagnostic {
  std::string file;        // as the user named it; "--set" for an override; empty when there is no file
  int line = 0;            // from 1; 0 = no place known
  int column = 0;          // from 1
  std::string message;     // without place
  std::string text;        // the complete message, without a final newline
  std::string place = {};  // the start of `text`: "a.yaml:4:3", "--set batch.micro=4"; empty when the value has no stated place
  std::string override_text = {};  // "batch.micro=4" where an override is at fault, else empty
  FaultCode code = FaultCode::Other;
};

// Shows the same fault at another place. The diagnostic must have a place.
Diagnostic shown_at(Diagnostic diagnostic, const std::string& place);

// The user's input is wrong. Exit code 2. Holds up to 20 diagnostics.
class InputError : public std::runtime_error {
 public:
  explicit InputError(std::vector<Diagnostic> diagnostics);
  explicit InputError(const std::string& message);  // a fault without a place, such as a wrong command-line option
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
