# The work of `warpweft bench --model` in llama.cpp: to each line it answers with the seconds that it took.
import os, sys, time

# Its threads wait for each other as they do where nothing else asks.
os.environ.pop("OMP_WAIT_POLICY", None)

from llama_cpp import Llama

path, threads = sys.argv[1], int(sys.argv[2])
model = Llama(path, n_ctx=1024, n_batch=512, n_threads=threads, n_threads_batch=threads, verbose=False)
token = lambda n: n * 37 % 1000 + 10

for line in sys.stdin:
    word, first, count = line.split()
    first, count = int(first), int(count)
    model.reset()
    if first > 0:
        model.eval([token(n) for n in range(first)])
    start = time.perf_counter()
    if word == "prompt":
        model.eval([token(first + n) for n in range(count)])
    else:
        for n in range(count):
            model.eval([token(first + n)])
    print(time.perf_counter() - start, flush=True)
