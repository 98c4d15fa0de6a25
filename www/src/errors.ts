// Errors. Errors of the core become a `WarpweftError` with a stable code.

/**
 * The kind of an error, for programs to act on.
 *
 * - `Shape`: shapes, axes, sizes or indices do not match the operation.
 * - `DType`: element types, or a number for an element type, do not match the operation.
 * - `InvalidArgument`: the value, the name or the type of an argument or an option is wrong.
 * - `InvalidState`: the call is not allowed in the current state. For example, the object was used after `dispose()`.
 * - `Format`: a file, a stream, a state dictionary or a text in a format is damaged or incomplete, or contradicts itself or the
 *   model.
 * - `Unsupported`: the device or this build does not support the operation.
 * - `Memory`: the device does not have enough memory.
 * - `DeviceLost`: the device was lost. A new one can be opened.
 * - `NoDevice`: no device matches the preference.
 * - `Limit`: a limit of the device or of this library is exceeded. The message has both numbers.
 */
export type ErrorCode =
  | "Shape"
  | "DType"
  | "InvalidArgument"
  | "InvalidState"
  | "Format"
  | "Unsupported"
  | "Memory"
  | "DeviceLost"
  | "NoDevice"
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
export const argumentError = (message: string) => new WarpweftError("InvalidArgument", message);

/** Makes the error for a call that is not allowed in the current state. */
export const stateError = (message: string) => new WarpweftError("InvalidState", message);

/** Makes the error for a damaged file, stream or text. */
export const formatError = (message: string) => new WarpweftError("Format", message);

/** Makes the error for an exceeded limit. */
export const limitError = (message: string) => new WarpweftError("Limit", message);

/** Makes the error for shapes, axes or sizes that do not match. */
export const shapeError = (message: string) => new WarpweftError("Shape", message);
