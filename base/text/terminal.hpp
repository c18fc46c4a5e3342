// What the terminal can show: colour, characters, columns.
#pragma once

#include "base/text/text_style.hpp"

namespace panpipe {

// Standard output is a terminal, NO_COLOR is not set, and TERM is not "dumb".
bool color_wanted();

// Columns of the terminal that standard output is; 0 where it is none. COLUMNS goes before what the terminal says.
int terminal_width();

// How text for standard output is set. Characters beyond ASCII need a locale of UTF-8: the first of LC_ALL, LC_CTYPE and LANG
// that is set counts; where none is set, as in many containers, terminals take UTF-8 all the same.
TextStyle style_of_output();

// Whether a line on standard error can be written over while work goes on: it is a terminal, and TERM is not "dumb".
bool progress_wanted();

}  // namespace panpipe
