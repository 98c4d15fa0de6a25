# The work of `warpweft bench --embedder` in ONNX Runtime: to each line it answers with the seconds that it took.
import sys, tempfile, time, warnings

import numpy as np
import onnxruntime, torch
from transformers import AutoModel

warnings.filterwarnings("ignore")
path, threads = sys.argv[1], int(sys.argv[2])


class Embedder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = AutoModel.from_pretrained(path, attn_implementation="eager")

    def forward(self, ids, mask):
        x = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        there = mask.unsqueeze(-1).to(x.dtype)
        return torch.nn.functional.normalize((x * there).sum(1) / there.sum(1), dim=1)


# Two tensors: the exporter takes one that is given twice for one input.
ids = torch.full((2, 16), 1000)
mask = torch.ones(2, 16, dtype=torch.int64)
axes = {0: torch.export.Dim("texts"), 1: torch.export.Dim("tokens", max=512)}
inputs = dict(input_names=["ids", "mask"], output_names=["vectors"], dynamic_shapes=(axes, axes))
exported = torch.onnx.export(Embedder().eval(), (ids, mask), dynamo=True, verbose=False, **inputs)
with tempfile.TemporaryDirectory() as folder:
    exported.save(f"{folder}/model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Its threads wait for each other as they do where nothing else asks.
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    session = onnxruntime.InferenceSession(f"{folder}/model.onnx", options, providers=["CPUExecutionProvider"])

for line in sys.stdin:
    texts, tokens = map(int, line.split())
    ids = np.arange(texts * tokens, dtype=np.int64).reshape(texts, tokens) * 37 % 1000 + 1000
    mask = np.ones_like(ids)
    start = time.perf_counter()
    session.run(None, {"ids": ids, "mask": mask})
    print(time.perf_counter() - start, flush=True)
