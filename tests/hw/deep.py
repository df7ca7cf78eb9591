"""Many calls of 1 MiB at a time, past the cache: deep.py FILE AT_A_TIME CALLS

Writes FILE and reads it, compares, and prints how long the longest of both took: soft-RoCE has been seen to stall for seconds.
"""
import concurrent.futures
import mmap
import os
import sys
import time

MIB = 1 << 20


def main():
    path, at_a_time, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o644)
    room = mmap.mmap(-1, at_a_time * MIB)  # on page boundaries, as O_DIRECT wants

    def write(i):
        part = memoryview(room)[i % at_a_time * MIB:][:MIB]
        begin = time.monotonic()
        assert os.pwrite(file, part, i * MIB) == MIB
        return time.monotonic() - begin

    def read(i):
        part = mmap.mmap(-1, MIB)
        begin = time.monotonic()
        assert os.preadv(file, [part], i * MIB) == MIB
        took = time.monotonic() - begin
        assert part[:8] == part[-8:] == (i % at_a_time).to_bytes(8, "big")
        return took

    for i in range(at_a_time):
        room[i * MIB:(i + 1) * MIB] = i.to_bytes(8, "big") * (MIB // 8)
    with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
        longest = [max(pool.map(work, range(calls))) for work in (write, read)]
    os.unlink(path)
    print(f"note: {calls} WRITEs and READs of 1 MiB, {at_a_time} at a time: the longest took {longest[0]:.2f} and {longest[1]:.2f} s")


main()
