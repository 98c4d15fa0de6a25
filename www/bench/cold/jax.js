// What the page takes of the library, and no more.
export { defaultDevice, init, nn, numpy } from "@jax-js/jax";
