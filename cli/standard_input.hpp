// `-` on the command line: standard input, wherever a file is read.
#pragma once

namespace panpipe::cli {

// Writes "/dev/stdin" in the place of every "-" among the arguments ("/dev/stdout" behind -o). A pipe is read to its end first
// and stands there as a file, so that it can be read again, by ranks of a run too. InputError when it is too large.
void name_standard_streams(int argc, char** argv);

}  // namespace panpipe::cli
