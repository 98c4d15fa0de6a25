// Turbopack needs to be told nothing. webpack's servers would look for the WebAssembly where browsers find it.

export default process.env.BUNDLER === "webpack" ? { serverExternalPackages: ["warpweft"] } : {};
