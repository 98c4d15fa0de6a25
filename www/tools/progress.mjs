// Progress of the npm commands. One line shows the running steps, their elapsed times and their usual times. If standard output
// is not a terminal, each step prints a line when it begins and when it ends.

const running = new Map();
let timer;

const isTerminal = () => Boolean(process.stdout.isTTY);

/** Prints a line above the running steps. */
export function say(line) {
  if (isTerminal()) process.stdout.write("\r\x1b[K");
  console.log(line);
  draw();
}

/** Runs `work` as a step. `usual` is its approximate time in seconds on a machine with two cores. */
export async function step(title, usual, work) {
  const start = Date.now();
  running.set(title, { start, usual });
  if (isTerminal()) timer ??= setInterval(draw, 1000).unref();
  else console.log(`${title} (usually ${duration(usual)})`);
  draw();
  let end = "failed after";
  try {
    const made = await work();
    end = "done in";
    return made;
  } finally {
    running.delete(title);
    say(`${title}: ${end} ${duration((Date.now() - start) / 1000)}`);
  }
}

function draw() {
  if (!isTerminal() || running.size === 0) return;
  const parts = [...running].map(([title, { start, usual }]) => {
    return `${title} ${duration((Date.now() - start) / 1000)} of about ${duration(usual)}`;
  });
  const line = parts.join(" | ").slice(0, (process.stdout.columns ?? 80) - 1);
  process.stdout.write(`\r\x1b[K${line}`);
}

/** Formats seconds: `40 s`, `3 min 20 s`. */
export function duration(seconds) {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const rest = whole % 60;
  return `${Math.floor(whole / 60)} min${rest ? ` ${rest} s` : ""}`;
}
