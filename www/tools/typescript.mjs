// TypeScript's compiler.

import { join } from "node:path";
import { nodeTool, root, run } from "./env.mjs";

/** Runs TypeScript's compiler on www/src, or with the settings of another folder. */
export function tsc(args, folder = "www") {
  const project = ["-p", join(folder, "tsconfig.json")];
  return run(process.execPath, [nodeTool("typescript", "tsc"), ...project, ...args]);
}

/** Type-checks a file of www/tests/types against the built declarations, which are all checked, too. */
export function typecheck(file, lib) {
  const strict = ["--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--skipLibCheck", "false"];
  const modules = ["--module", "esnext", "--moduleResolution", "bundler", "--target", "es2022", "--types", ""];
  const path = join(root, "www", "tests", "types", file);
  return run(process.execPath, [nodeTool("typescript", "tsc"), "--noEmit", ...strict, ...modules, "--lib", lib, path]);
}
