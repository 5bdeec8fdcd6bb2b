"""Freed memory is used again instead of asked for again."""

import subprocess
import sys

import pytest

CODE = """if True:
    import resource, sys
    from persistor._tools.allocator import keep_freed_memory
    if sys.argv[1] == "keep" and not keep_freed_memory():
        sys.exit(3)
    def faults():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        bytearray(64 << 20)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    for _ in range(3):
        faults()
    print(faults())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc")
def test_a_large_block_comes_without_new_pages():
    def faults(how):
        ran = subprocess.run([sys.executable, "-c", CODE, how], capture_output=True, text=True)
        if ran.returncode == 3:
            pytest.skip("not glibc")
        return int(ran.stdout)

    assert faults("keep") < 100 < faults("leave")
