"""Makes what every row copies, under DIR: fixtures.py DIR

files/        the files of the matrix, by name and size; files/edges/ one of each size around the inline limit; files.sums
many/         128 files, of sizes that go inline and that do not
links/        symbolic links of 1 to 1,023 bytes; links.list
digits        16 MiB + 5 bytes of digits: tshark takes some random bytes for other protocols
"""
import hashlib
import os
import sys

SIZES = {"0B": 0, "1B": 1, "4KiB": 4096, "64KiB+1": 65537, "1MiB-3": 1048573, "1MiB": 1048576, "16MiB+5": 16777221}
# Headers, credentials and handles decide where between 3.6 and 4.1 KB a message itself crosses the inline limit of 4096.
EDGES = range(3640, 4105, 8)

os.chdir(sys.argv[1])
digits = "".join(map(str, range(2600000))).encode()[:SIZES["16MiB+5"]]
with open("digits", "wb") as out:
    out.write(digits)
os.makedirs("files/edges")
os.mkdir("links")
os.mkdir("many")
for i in range(1, 129):
    with open(f"many/{i}", "wb") as out:
        out.write(digits[i:i + i * 400])
files = {name: digits[:size] for name, size in SIZES.items()}
files.update({f"edges/{size}": digits[-size:] for size in EDGES})
with open("files.sums", "w") as sums:
    for name, data in files.items():
        with open(os.path.join("files", name), "wb") as out:
            out.write(data)
        sums.write(f"{hashlib.sha256(data).hexdigest()}  ./{name}\n")
with open("links.list", "w") as names:
    for length in range(1, 1024):
        text = digits[7:7 + length].decode()
        os.symlink(text, f"links/{length}")
        names.write(f"{length} {text}\n")
