// Starts programs that serve until they are stopped.

import { spawn } from "node:child_process";
import { createServer } from "node:net";

/** Returns a free port. */
async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return String(port);
}

/**
 * Starts a program that serves. Replaces `PORT` in its arguments and environment by a free port. Returns its address once it
 * answers there, its output, and `stop()`.
 */
export async function start(program, args, { env, ...options }) {
  const port = await freePort();
  const filled = (value) => (value === "PORT" ? port : value);
  const child = spawn(program, args.map(filled), {
    ...{ ...options, stdio: ["ignore", "pipe", "pipe"] },
    env: Object.fromEntries(Object.entries(env).map(([name, value]) => [name, filled(value)])),
    // A separate process group, so that its child processes end with it.
    detached: true,
  });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (printed += data));
  let ended = false;
  const end = new Promise((resolve) => child.on("close", resolve)).then(() => (ended = true));
  child.on("error", (error) => (printed += String(error)));
  const signal = (name) => ended || process.kill(-child.pid, name);
  const atExit = () => signal("SIGKILL");
  process.on("exit", atExit);
  const stop = async () => {
    signal("SIGTERM");
    const kill = setTimeout(signal, 5000, "SIGKILL");
    await end;
    clearTimeout(kill);
    process.off("exit", atExit);
  };
  const address = `http://127.0.0.1:${port}/`;
  for (const began = Date.now(); ; await new Promise((resolve) => setTimeout(resolve, 100))) {
    const answered = await fetch(address).then(() => true, () => false);
    if (answered) return { address, stop, output: () => printed.slice(-4000) };
    if (!ended && Date.now() - began < 90_000) continue;
    if (!ended) await stop();
    throw new Error(`${[program, ...args].join(" ")} does not serve\n${printed.slice(-4000)}`);
  }
}
