"""64 writers at once, past the cache, then 64 readers: flight.py MOUNTED EXPORT DIGITS

File I of MOUNTED is 256 KiB of DIGITS from I x 64 KiB on, in calls of 64 KiB; it is compared where the server has it, EXPORT, and
as it comes back. Prints how long the longest calls took: soft-RoCE has been seen to stall for seconds.
"""
import concurrent.futures
import mmap
import os
import sys
import time

FILES, CALL, CALLS = 64, 1 << 16, 4


def buffer():
    return mmap.mmap(-1, CALL)  # on a page boundary, as O_DIRECT wants


def main():
    mounted, export, source = sys.argv[1:4]
    with open(source, "rb") as file:
        digits = file.read((FILES + CALLS) * CALL)
    want = [digits[i * CALL:(i + CALLS) * CALL] for i in range(FILES)]

    def write(i):
        part, file = buffer(), os.open(f"{mounted}/{i}", os.O_WRONLY | os.O_CREAT | os.O_DIRECT, 0o644)
        longest = 0
        for at in range(0, CALL * CALLS, CALL):
            part[:] = want[i][at:at + CALL]
            begin = time.monotonic()
            assert os.pwrite(file, part, at) == CALL
            longest = max(longest, time.monotonic() - begin)
        os.close(file)
        return longest

    def read(i):
        part, file = buffer(), os.open(f"{mounted}/{i}", os.O_RDONLY | os.O_DIRECT)
        longest = 0
        for at in range(0, CALL * CALLS, CALL):
            begin = time.monotonic()
            assert os.preadv(file, [part], at) == CALL
            longest = max(longest, time.monotonic() - begin)
            assert part[:] == want[i][at:at + CALL], f"file {i} differs here at {at}"
        os.close(file)
        return longest

    with concurrent.futures.ThreadPoolExecutor(FILES) as pool:
        writes = max(pool.map(write, range(FILES)))
        for i in range(FILES):
            with open(f"{export}/{i}", "rb") as file:
                assert file.read() == want[i], f"file {i} differs at the server"
        reads = max(pool.map(read, range(FILES)))
    print(f"note: {FILES} at a time: the longest took {writes:.2f} and {reads:.2f} s")


main()
