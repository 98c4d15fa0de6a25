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

type Root = abstract new (...values: never[]) => object;

const roots: [Root, string][] = [];

/** Objects of this class are this copy's own, and called so. Those of another copy bear the same mark. */
export function own(root: Root, words: string): void {
  roots.push([root, words]);
}

/** What an object of this copy's own classes is called; undefined of any other. */
export const calledOwn = (value: unknown) => roots.find(([root]) => value instanceof root)?.[1];
