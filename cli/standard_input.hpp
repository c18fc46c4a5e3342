// Accepts `-` on the command line as standard input wherever a file is read.
#pragma once

namespace panpipe::cli {

// Replaces every "-" among the arguments by "/dev/stdin" ("/dev/stdout" after -o). A pipe is read to its end first and stored as
// a file, so that it can be read again, even by the ranks of a run. Throws InputError if it is too large.
void name_standard_streams(int argc, char** argv);

}  // namespace panpipe::cli
