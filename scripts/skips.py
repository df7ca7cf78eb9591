"""Lists the tests that were skipped in ctest's JUnit files, with their reasons.

usage: skips.py --require NAMES FILE...   (NAMES: comma separated, may be empty)
A skip whose reason begins with "needs NAME" of a required name makes the exit status 1.
"""
import re
import sys
import xml.etree.ElementTree as tree


def reason_of(case):
    text = " ".join(filter(None, [case.findtext("system-out"), case.findtext("failure")]))
    found = re.search(r"needs [^\n]*", text)
    return found.group(0).strip() if found else "no reason given"


def main():
    required = [name for name in sys.argv[2].split(",") if name]
    skips = {}
    for path in sys.argv[3:]:
        for case in tree.parse(path).getroot().iter("testcase"):
            if case.get("status") in ("notrun", "disabled") or case.find("skipped") is not None:
                skips[case.get("name")] = reason_of(case)
    print(f"skipped: {len(skips)} ({', '.join(f'{n}: {r}' for n, r in sorted(skips.items()))})")
    failed = [n for n, r in skips.items() if any(r.startswith("needs " + q) for q in required)]
    if failed:
        print(f"check: FAILED: --require forbids these skips: {', '.join(sorted(failed))}")
        return 1
    return 0


sys.exit(main())
