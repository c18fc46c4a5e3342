#!/usr/bin/env python3
"""Texts to a file of tokens for `data: {tokens: FILE}`: little-endian ids of 16 bits (or 32), one per byte of text or one per word.

  tools/make_tokens.py -o train.bin /usr/share/common-licenses
  tools/make_tokens.py --words 4000 -o train.bin --vocabulary words.txt book1.txt book2.txt

Byte ids are 0..255 (a model wants vocabulary 256). With --words N the N - 1 most frequent words (runs of letters and digits, and
single other characters) get ids from 1 in that order, everything else 0. Ids beyond 65535 take --width 32. Folders are read whole, in
the order of their names.
"""

import argparse
import array
import collections
import pathlib
import re
import sys

WORD = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9\s]|\s+")


def files_of(names):
    for name in names:
        path = pathlib.Path(name)
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*") if p.is_file() and not p.is_symlink())
        elif path.is_file():
            yield path
        else:
            sys.exit(f"make_tokens: there is no {name}")


def word_ids(text, size):
    words = WORD.findall(text)
    kept = [word for word, _ in collections.Counter(words).most_common(size - 1)]
    ids = {word: number for number, word in enumerate(kept, start=1)}
    return [ids.get(word, 0) for word in words], kept


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="+", metavar="TEXT", help="files or folders")
    parser.add_argument("-o", "--output", required=True, help="the file of tokens to write")
    parser.add_argument("--words", type=int, metavar="N", help="word ids below N instead of bytes")
    parser.add_argument("--vocabulary", metavar="FILE", help="with --words: writes the words, one per line, id 1 first")
    parser.add_argument(
        "--width", type=int, choices=(16, 32), default=16, help="bits of an id; 32: read with {tokens: FILE, width: 32}"
    )
    arguments = parser.parse_args()
    most = 1 << min(arguments.width, 31)
    if arguments.words is not None and not 2 <= arguments.words <= most:
        sys.exit(f"make_tokens: --words takes 2 to {most}: ids have {arguments.width} bits")
    data = b"\n".join(path.read_bytes() for path in files_of(arguments.texts))
    if arguments.words is None:
        ids, kept = list(data), None
    else:
        ids, kept = word_ids(data.decode("utf-8", "replace"), arguments.words)
    tokens = array.array("H" if arguments.width == 16 else "I", ids)
    if sys.byteorder == "big":
        tokens.byteswap()
    pathlib.Path(arguments.output).write_bytes(tokens.tobytes())
    if arguments.vocabulary and kept is not None:
        pathlib.Path(arguments.vocabulary).write_text("\n".join(repr(word) for word in kept) + "\n")
    print(f"{arguments.output}: {len(tokens)} tokens, vocabulary {arguments.words or 256}", file=sys.stderr)


if __name__ == "__main__":
    main()
