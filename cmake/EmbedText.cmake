# cmake -D INPUT=... -D OUTPUT=... -D NAME=... -P EmbedText.cmake: a text as a string of C++.
file(READ ${INPUT} text)
file(WRITE ${OUTPUT} "namespace panpipe::cli {\nextern const char* const ${NAME};\nconst char* const ${NAME} = R\"embedded(${text})embedded\";\n}  // namespace panpipe::cli\n")
