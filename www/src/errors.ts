// Errors: what WebAssembly throws as text becomes a `WarpweftError` with a stable code.

/**
 * What went wrong, as a program can act on it.
 *
 * - `Shape`: shapes, axes, extents or indices do not fit the operation.
 * - `DType`: the element types, or a number for such a type, do not fit the operation.
 * - `Unsupported`: the device, or this build, cannot do it.
 * - `Memory`: the device has no memory left for it.
 * - `DeviceLost`: the device is gone; a new one can be made.
 * - `NoDevice`: no device answers to what was asked for.
 * - `Data`: an argument is not what it claims to be, or something was used after `dispose()`.
 * - `Limit`: a limit of the device or of this library is exceeded; the message names both numbers.
 */
export type ErrorCode =
  | "Shape"
  | "DType"
  | "Unsupported"
  | "Memory"
  | "DeviceLost"
  | "NoDevice"
  | "Data"
  | "Limit";

/** Every error this package throws. The message begins with the operation's name. */
export class WarpweftError extends Error {
  override readonly name = "WarpweftError";
  /** The stable word for what went wrong. */
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** An argument that is not what it should be. */
export const dataError = (message: string) => new WarpweftError("Data", message);

/** Something that is more than there may be. */
export const limitError = (message: string) => new WarpweftError("Limit", message);

/** Shapes, axes or extents that do not fit. */
export const shapeError = (message: string) => new WarpweftError("Shape", message);
