#!/usr/bin/env python3
"""Makes the linker's version script of libnfsrdma.so from the headers that are installed.

    exports.py ROOT VERSION OUTPUT GENERATED HEADER...

Exported are the functions of the C face, every class that a header defines, with all of its members, and every function that a
header declares at namespace level. Templates and inline functions are the caller's own and are not. GENERATED are rpcgen's headers:
of what they declare the XDR routines, which is all that there is of it. Fails where a header includes one that is not installed.
"""
import os
import re
import sys

WORD_END = "[!a-zA-Z0-9_]*"


def code_of(text):
    """Without comments, literals and directives."""
    text = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])\'',
                  lambda m: " " if m.group().startswith("/") else "0", text, flags=re.S)
    text = text.replace('extern 0 {', '')
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", "", text, flags=re.M)


def statements(code):
    """(namespace, head) of what stands at namespace level, heads without the bodies."""
    scopes, head, at = [], "", 0
    while at < len(code):
        c = code[at]
        if c == "{":
            space = re.search(r"\bnamespace\s+([\w:]*)\s*$", head)
            if space:
                scopes.append(space.group(1))
                head = ""
            else:
                depth = 1
                while depth:
                    at += 1
                    depth += {"{": 1, "}": -1}.get(code[at], 0)
                # An initializer ends with its semicolon, a body with its brace.
                yield "::".join(scopes), head.strip() + " {}"
                head = ""
        elif c == "}":
            if scopes:
                scopes.pop()
            head = ""
        elif c == ";":
            if head.strip():
                yield "::".join(scopes), head.strip()
            head = ""
        else:
            head += c
        at += 1


def cxx_names(code):
    """Classes that are defined, and functions that are declared."""
    classes, functions = set(), set()
    for space, head in statements(code):
        if not space.startswith("nfsrdma"):
            continue
        head = re.sub(r"\[\[.*?\]\]|\balignas\([^)]*\)", " ", head)
        if re.match(r"\s*(template|using|typedef|static_assert|enum|inline|constexpr|friend)\b", head):
            continue
        match = re.match(r"(?:class|struct|union)\s+(?:NR_\w+\([^)]*\)\s*)?(\w+)[^;(]*\{\}$", head)
        if match:
            classes.add(f"{space}::{match.group(1)}")
            continue
        match = re.match(r"[^(]*?\b(operator\W+|\w+)\s*\(", head)
        if match and not head.endswith("{}"):
            functions.add(f"{space}::{match.group(1)}")
    return classes, functions


def c_names(code):
    return set(re.findall(r"\b((?:clnt_rdma|svc_rdma|rpcrdma|rpcb_rdma)\w*)\s*\(", code))


def includes_of(text):
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, flags=re.M)


def collect(root, generated, headers):
    classes, functions = set(), set()
    c = {"nfsrdma_" + name for path in generated for name in re.findall(r"\bextern\s+bool_t\s+(xdr_\w+)", open(path).read())}
    for header in headers:
        with open(os.path.join(root, header)) as file:
            text = file.read()
        for include in includes_of(text):
            if include not in headers:
                sys.exit(f"exports.py: {header} includes {include}, which is not installed: cmake/headers.cmake")
        code = code_of(text)
        if header.endswith(".h"):
            c |= c_names(code)
            continue
        more_classes, more_functions = cxx_names(code)
        classes |= more_classes
        functions |= more_functions
    return c, classes, functions


def version_script(version, c, classes, functions):
    lines = [f"NFSRDMA_{version} {{", "  global:"]
    lines += [f"    {name};" for name in sorted(c)]
    lines.append('    extern "C++" {')
    for name in sorted(classes):
        lines.append(f"      {name}::*;")
        for kind in ("vtable", "typeinfo", "typeinfo name", "VTT"):
            lines.append(f'      "{kind} for {name}";')
            lines.append(f"      {kind.replace(' ', '?')}?for?{name}::*;")
    for name in sorted(functions):
        name = re.sub(r"operator\W.*", "operator", name)
        lines.append(f"      {name}{WORD_END};")
    return "\n".join(lines + ["    };", "  local:", "    *;", "};", ""])


def main():
    root, version, output, generated, *headers = sys.argv[1:]
    names = collect(root, generated.split(","), headers)
    with open(output, "w") as file:
        file.write(version_script(version, *names))


if __name__ == "__main__":
    main()
