# Takes 256 MB of memory.
print("variables", *sorted(os.environ))
sys.stdout.flush()
taken = bytearray(256 << 20)
taken[:: 4096] = b"x" * len(taken[:: 4096])
print("taken", len(taken))
done()
