// Orders that are handed in to the arena: a CSV file, or a Python file that makes one.
#pragma once

#include <string>
#include <vector>

#include "app/arena.hpp"
#include "study/arena/certificate.hpp"

namespace panpipe::cli {

struct Submitted {
  study::Entrant entrant;
  study::Submission submission;
};

// A CSV file names its author and its reference in comments, "# by: NAME" and "# reference: WHERE"; a Python file in BY and
// REFERENCE, and defines order(ranks, microbatches) or order(ranks, microbatches, costs), which returns the rows of the ranks
// (lists of cells), the text of a CSV file, or what panpipe.schedule makes. It runs in python3 of PATH with the rights of this
// process, for at most kSubmissionSeconds. What `stated` holds replaces what the file names. Sizes that are not asked for are
// those of the CSV file, or 4 and 8. Throws InputError for a file that is neither, that names no author or reference, or whose
// order cannot be read, and MachineError without python3.
constexpr double kSubmissionSeconds = 20;
Submitted read_submission(const std::string& file, const app::ArenaRequest& request, const study::Submission& stated);

}  // namespace panpipe::cli
