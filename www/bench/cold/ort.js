// What the page takes of the library, and no more.
export { env, InferenceSession, Tensor } from "onnxruntime-web/webgpu";
