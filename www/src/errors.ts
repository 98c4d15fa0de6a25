// Errors. Errors of the core become a `WarpweftError` with a stable code.

/**
 * The kind of an error, for programs to act on.
 *
 * - `Shape`: shapes, axes, sizes or indices do not match the operation.
 * - `DType`: element types, or a number for an element type, do not match the operation.
 * - `Unsupported`: the device or this build does not support the operation.
 * - `Memory`: the device does not have enough memory.
 * - `DeviceLost`: the device was lost. A new one can be opened.
 * - `NoDevice`: no device matches the preference.
 * - `Data`: an argument is invalid, or an object was used after `dispose()`.
 * - `Limit`: a limit of the device or of this library is exceeded. The message has both numbers.
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

/** The class of all errors of this package. A message begins with the name of the operation. */
export class WarpweftError extends Error {
  override readonly name = "WarpweftError";
  /** The stable code of the kind of error. */
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Makes the error for an invalid argument. */
export const dataError = (message: string) => new WarpweftError("Data", message);

/** Makes the error for an exceeded limit. */
export const limitError = (message: string) => new WarpweftError("Limit", message);

/** Makes the error for shapes, axes or sizes that do not match. */
export const shapeError = (message: string) => new WarpweftError("Shape", message);
