"""Turns lines "row N NAME OUTCOME" into JUnit XML: junit.py OUT.xml RESULTS STATUS REASON

OUTCOME is "ok (S s)", "FAILED: why" or "skipped: why". STATUS 77 means that there was no guest, for REASON; any other with a
REASON is a failure of the run itself. Exit status 1 when something failed.
"""
import os
import re
import sys
import xml.etree.ElementTree as tree

LINE = re.compile(r"row (\S+) (.*?) (ok|FAILED|skipped)(?:: (.*)| \((?:([\d.]+) s)?.*\))?$")


def add(suite, name, outcome, text, seconds):
    case = tree.SubElement(suite, "testcase", name=name, classname="Hw", time=seconds or "0", status="run")
    if outcome == "FAILED":
        case.set("status", "fail")
        tree.SubElement(case, "failure", message=text).text = text
    elif outcome == "skipped":
        case.set("status", "notrun")
        tree.SubElement(case, "skipped", message=text)
        tree.SubElement(case, "system-out").text = text
    return outcome == "FAILED"


def main():
    out, results, status, reason = sys.argv[1:5]
    suite = tree.Element("testsuite", name="hw")
    failures = 0
    if os.path.exists(results):
        with open(results, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                found = LINE.match(line.strip())
                if found:
                    row, name, outcome, text, seconds = found.groups()
                    failures += add(suite, f"Hw.Row{row} {name}", outcome, text or "", seconds)
    if status == "77":
        add(suite, "Hw.Matrix", "skipped", reason or "needs qemu: no reason given", None)
    elif reason:
        failures += add(suite, "Hw.Matrix", "FAILED", reason, None)
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(failures))
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    tree.ElementTree(suite).write(out, encoding="utf-8", xml_declaration=True)
    return 1 if failures or (len(suite) == 0) else 0


sys.exit(main())
