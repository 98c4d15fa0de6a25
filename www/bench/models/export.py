"""An encoder as the files that transformers.js loads: `python export.py MODEL FOLDER`.

It writes the graph in ONNX and f32, as PyTorch exports it, and copies the JSON files.
"""

import shutil
import sys
import warnings
from pathlib import Path

import torch
from transformers import AutoModel

warnings.filterwarnings("ignore")
source, target = map(Path, sys.argv[1:])


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = AutoModel.from_pretrained(source, attn_implementation="eager")

    def forward(self, input_ids, attention_mask, token_type_ids):
        inputs = dict(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        return self.model(**inputs).last_hidden_state


# The exporter makes one input of a tensor that is given twice.
examples = tuple(torch.ones(2, 16, dtype=torch.int64) for _ in range(3))
axes = {0: torch.export.Dim("texts"), 1: torch.export.Dim("tokens", max=512)}
exported = torch.onnx.export(
    Encoder().eval(),
    examples,
    dynamo=True,
    verbose=False,
    input_names=["input_ids", "attention_mask", "token_type_ids"],
    output_names=["last_hidden_state"],
    dynamic_shapes=(axes,) * 3,
)
(target / "onnx").mkdir(parents=True, exist_ok=True)
exported.save(target / "onnx" / "model.onnx", external_data=False)
for file in source.glob("*.json"):
    shutil.copy(file, target)
