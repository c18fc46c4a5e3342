/* Kernel header that emscripten leaves out: the file system of /proc, which a page has none of. */
#pragma once

#define PROC_SUPER_MAGIC 0x9fa0
