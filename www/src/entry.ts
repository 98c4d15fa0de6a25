// Which of the package's entries this is: each is a whole build, whose objects are strangers to the others.

let name = "warpweft";

/** What users import. */
export const entry = () => name;

/** See {@link entry}. */
export function enter(as: string): void {
  name = as;
}

/** By this all objects of the package say which entry they are of, whichever this is. */
export const mark = Symbol.for("warpweft.entry");
