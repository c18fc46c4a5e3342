// Capabilities of the terminal: colour, characters, columns.
#pragma once

#include "base/text/text_style.hpp"

namespace panpipe {

// True when standard output is a terminal, NO_COLOR is not set, and TERM is not "dumb".
bool color_wanted();

// Columns of the terminal behind standard output; 0 when it is not a terminal. COLUMNS overrides the terminal's answer.
int terminal_width();

// The text style for standard output. Characters beyond ASCII need a UTF-8 locale; the first set variable of LC_ALL, LC_CTYPE and
// LANG decides. If none is set, as in many containers, UTF-8 is assumed, since terminals accept it anyway.
TextStyle style_of_output();

// True when progress can overwrite a line on standard error: it is a terminal, and TERM is not "dumb".
bool progress_wanted();

}  // namespace panpipe
