// The package's JavaScript and declarations, made from www/src and the files that wasm-bindgen generates for the cores.

import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { dist, root } from "./env.mjs";
import { added, classes } from "./glue.mjs";
import { tsc } from "./typescript.mjs";

const source = (name) => join(root, "www", "src", `${name}.ts`);

/**
 * The module formats. In each format the entries share one module, so that they have one set of classes. CommonJS is for test
 * runners that cannot require ES modules. It needs no `inline`, because its files are on disk.
 */
const formats = {
  es: { format: "es", entries: ["index", "nn", "models", "inline"], extension: "js", sourcemap: true },
  cjs: {
    format: "cjs",
    ...{ entries: ["index", "nn", "models"], extension: "cjs", sourcemap: false },
    define: { "import.meta.url": "moduleAddress" },
    intro: 'const moduleAddress = require("node:url").pathToFileURL(__filename).href;',
  },
};

/** Bundles the modules of www/src and the cores' JavaScript, with source maps, and writes all declarations. */
export async function buildScript() {
  removeOld();
  await tsc(["--emitDeclarationOnly"]);
  // The declarations of the classes come from the cores.
  const names = ["gpu", "gpu-nn", "gpu-models"];
  const [base, nn, models] = names.map((name) => readFileSync(join(dist, name, "classes.txt"), "utf8"));
  writeFileSync(join(dist, "classes.d.ts"), classes(base));
  writeFileSync(join(dist, "nn-classes.d.ts"), added("nn", [["classes", base]], nn));
  writeFileSync(join(dist, "language.d.ts"), added("language", [["classes", base], ["nn-classes", nn]], models));
  writeCommonJsDeclarations();
  // The WebAssembly of `warpweft/inline`.
  const inside = Object.entries({ gpu: "gpu-nn", cpu: "cpu" });
  const text = (name) => readFileSync(join(dist, `${name}.wasm`), "base64");
  writeFileSync(join(dist, "inside.js"), inside.map(([as, name]) => `export const ${as} = "${text(name)}";\n`).join(""));
  for (const format of Object.values(formats)) await bundle(format);
}

/** Writes all declarations a second time, for `require`. TypeScript takes `.d.ts` files for those of ES modules. */
function writeCommonJsDeclarations() {
  for (const name of readdirSync(dist).filter((name) => name.endsWith(".d.ts"))) {
    const text = readFileSync(join(dist, name), "utf8").replaceAll(/"(\.\/[\w-]+)\.js"/g, '"$1.cjs"');
    writeFileSync(join(dist, name.replace(/ts$/, "cts")), text);
  }
}

/** For each entry, the other entries whose exports it has, too. */
export const included = { index: [], nn: [], models: ["nn"] };

/**
 * Bundles the modules of one entry without declarations: the files that a page loads. A page that imports an included entry
 * gets the same module, so that only the cores of one entry need to be built.
 */
export async function buildEntry(entry) {
  removeOld();
  await bundle({ ...formats.es, entries: [entry] });
  for (const name of included[entry]) writeFileSync(join(dist, `${name}.js`), `export * from "./${entry}.js";\n`);
}

/** Removes the files of the last build, because files whose source no longer exists must not be published. */
function removeOld() {
  for (const old of readdirSync(dist).filter((name) => /\.(c?js|map|d\.c?ts)$/.test(name))) rmSync(join(dist, old));
}

async function bundle({ format, entries, extension, sourcemap, define, intro }) {
  const { build: vite } = await import("vite"); // Imported here, because setup installs it.
  // Names of classes and functions are kept for consoles and profiles. Line breaks are kept, too.
  const compress = { target: "es2022", keepNames: { function: true, class: true } };
  const minify = { compress, mangle: { toplevel: false, keepNames: true }, codegen: { removeWhitespace: false } };
  const coding = Object.fromEntries(["TextDecoder", "TextEncoder"].map((name) => [name, [source("coding"), name]]));
  await vite({
    ...{ configFile: false, root, logLevel: "warn", publicDir: false, define },
    resolve: { alias: [{ find: /^\.\/([\w-]+)\/warpweft_bg/, replacement: `${dist}/$1/warpweft_bg` }] },
    build: {
      ...{ outDir: dist, emptyOutDir: false, target: "es2022", sourcemap },
      lib: { entry: Object.fromEntries(entries.map((name) => [name, source(name)])), formats: [format] },
      rolldownOptions: {
        external: [/\/inside\.js$/],
        transform: { inject: coding },
        output: {
          ...{ entryFileNames: `[name].${extension}`, intro },
          // The modules that all entries share, and those that only the entries with models share.
          chunkFileNames: ({ moduleIds }) => {
            const names = { "share-nn.ts": "shared-nn", "load.ts": "shared" };
            const found = Object.keys(names).find((file) => moduleIds.some((id) => id.endsWith(`/src/${file}`)));
            return `${names[found] ?? "[name]"}.${extension}`;
          },
          minifyInternalExports: false,
          // Comments are removed, because the declarations have them. `@vite-ignore` is only for this bundler, not for users'.
          ...{ minify, comments: false },
        },
      },
    },
  });
}
