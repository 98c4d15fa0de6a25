// What the page takes of the library, and no more.
export { matMul, ready, relu, setBackend, tensor } from "@tensorflow/tfjs-core";
import "@tensorflow/tfjs-backend-webgpu";
