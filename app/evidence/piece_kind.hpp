// What a file of evidence is, by its contents alone; and what a file is that is no evidence.
#pragma once

#include <string>
#include <string_view>

namespace panpipe::app {

enum class PieceKind { Log, Runs, Trace, Nccl, Collectives, Profile, Device, Result };

// "a training log"; and in documents, "log".
std::string_view words_of(PieceKind kind);
std::string_view name_of(PieceKind kind);

// Throws InputError, with what the file is and lacks, for a folder or a device, and for what measures nothing. Reads the front of
// the file alone.
PieceKind kind_of_piece(const std::string& file);

}  // namespace panpipe::app
