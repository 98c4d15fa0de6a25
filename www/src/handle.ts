// Things that live in WebAssembly: a number each, freed by hand or when JavaScript has forgotten them.

import { call } from "./core.js";
import { dataError } from "./errors.js";
import type { Core } from "./load.js";

/** What all things of one device share. */
export interface Owner {
  readonly core: Core;
  /** The device itself was disposed, and all that lived on it with it. */
  gone: boolean;
}

interface Kept {
  owner: Owner;
  handle: number;
}

/** Frees `kept`, unless its device freed everything before: its number may be another thing's by now. */
function free({ owner, handle }: Kept): void {
  if (!owner.gone) call(() => owner.core.dispose(handle));
}

const forgotten = new FinalizationRegistry(free);

/** Something that lives in WebAssembly. */
export abstract class Handle {
  /** @internal */
  readonly owner: Owner;
  #handle: number;

  /** @internal */
  constructor(owner: Owner, handle: number) {
    this.owner = owner;
    this.#handle = handle;
    forgotten.register(this, { owner, handle }, this);
  }

  /** Its number, for a call in the name of `name`. @internal */
  use(name: string): number {
    if (this.disposed) throw dataError(`${name}: used after dispose()`);
    return this.#handle;
  }

  /** Whether it, or the device it lives on, was disposed. */
  get disposed(): boolean {
    return this.#handle === 0 || this.owner.gone;
  }

  /** Frees it at once. Doing so twice is harmless; using it afterwards is an error of code `Data`. */
  dispose(): void {
    const handle = this.#handle;
    if (handle === 0) return;
    this.#handle = 0;
    forgotten.unregister(this);
    free({ owner: this.owner, handle });
  }

  /** {@link Handle.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}
