// The entry with the WebAssembly inside has the same declarations.

import { Device } from "warpweft/inline";

export const open = (): Promise<Device> => Device.new({ wasm: {} });
