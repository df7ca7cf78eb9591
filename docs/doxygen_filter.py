#!/usr/bin/env python3
"""What Doxygen reads in place of a header: plain comments become its own, and their text means what it says.

A comment of lines of its own tells of what follows, one behind code of what is before it. `<`, `#`, `@` and the like are letters,
but for what is in backquotes or is indented as an example.
"""
import re
import sys


def plain(text):
    if text.startswith("    "):
        return text
    spans = text.split("`")
    if len(spans) % 2 == 0:  # one that ends on another line
        return re.sub(r"((?<!\w)::|[\\<>#@%&$`])", r"\\\1", text)
    return "`".join(part if number % 2 else re.sub(r"((?<!\w)::|[\\<>#@%&$])", r"\\\1", part) for number, part in enumerate(spans))


def cxx(lines):
    behind = None  # the column of the comment behind code, where the next line may go on with it
    for line in lines:
        match = re.match(r'((?:[^"/]|"(?:\\.|[^"\\])*"|/(?!/))*)//(?!/)(.*)$', line)
        if not match:
            behind = None
            yield line
            continue
        code, text = match.groups()
        if code.strip():
            behind = len(code)
            # Behind an opening brace it tells of what is in there.
            mark = "//" if code.rstrip().endswith("{") or code.lstrip().startswith("#") else "///<"
            yield f"{code}{mark}{plain(text)}"
        else:
            behind = behind if len(code) == behind else None
            yield f"{code}{'///' if behind is None else '///<'}{plain(text)}"


def c(text):
    def comment(match):
        before, body = match.groups()
        if "----" in body:
            return before
        body = "\n".join(re.sub(r"^(\s*\*? ?)(.*)$", lambda m: m.group(1) + plain(m.group(2)), line) for line in body.split("\n"))
        mark = "/**<" if before.strip() and not before.rstrip().endswith("{") else "/**"
        return f"{before}{mark}{body}*/"
    return re.sub(r"([^\n]*?)/\*(.*?)\*/", comment, text, flags=re.S)


def main():
    path = sys.argv[1]
    with open(path) as file:
        text = file.read()
    print(c(text) if path.endswith(".h") else "\n".join(cxx(text.split("\n"))))


if __name__ == "__main__":
    main()
