// Figures for people: a table in Markdown, with the ratio to the best peer.

const sorted = (values) => [...values].sort((a, b) => a - b);

/** Between two values where none lies at that part of the list. */
function quantile(values, part) {
  const list = sorted(values);
  const at = (list.length - 1) * part;
  const below = list[Math.floor(at)];
  return below + (list[Math.ceil(at)] - below) * (at % 1);
}

export const median = (values) => quantile(values, 0.5);
/** The width of the middle half. */
export const interquartile = (values) => quantile(values, 0.75) - quantile(values, 0.25);

const titles = { warpweft: "warpweft", before: "before", tfjs: "TensorFlow.js", ort: "ORT-web", jax: "jax-js" };

const digits = (ms) => (ms >= 100 ? ms.toFixed(0) : ms >= 10 ? ms.toFixed(1) : ms.toFixed(2));

/** How many times as long the best of others takes; undefined where there is nothing to compare. */
function ratio(entries, others) {
  const good = entries.filter(({ checked, error, median_ms }) => checked && !error && median_ms !== null);
  const own = good.find(({ library }) => library === "warpweft");
  const times = good.filter(({ library }) => others.includes(library)).map(({ median_ms }) => median_ms);
  return own && times.length ? Math.min(...times) / own.median_ms : undefined;
}

/** What is compared: the best peer with warpweft, and warpweft as it was with warpweft as it is. */
const comparisons = [
  ["best peer / warpweft", ["tfjs", "ort", "jax"]],
  ["before / warpweft", ["before"]],
];

const geometricMean = (values) => Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);

export function table(results, { adapter, versions, browser, date, runs, cpu, cores, load }) {
  const names = Object.keys(versions);
  const byCase = new Map();
  for (const result of results) byCase.set(result.case, [...(byCase.get(result.case) ?? []), result]);
  const footnotes = [];
  const cell = (entry) => {
    if (!entry) return "-";
    if (entry.error || !entry.checked) {
      footnotes.push(`${entry.case}, ${titles[entry.library]}: ${entry.error ?? "not checked"}`);
      return `fails (${footnotes.length})`;
    }
    const few = entry.runs < runs ? ` (${entry.runs})` : "";
    const spread = entry.runs > 1 ? ` ±${digits(entry.spread_ms / 2)}` : "";
    return `${digits(entry.median_ms)}${spread}${few}`;
  };
  const compared = comparisons.filter(([, others]) => others.some((name) => names.includes(name)));
  const ratios = compared.map(([, others]) => [...byCase.values()].map((entries) => ratio(entries, others)));
  const rows = [...byCase].map(([name, entries], i) => {
    const cells = names.map((library) => cell(entries.find((entry) => entry.library === library)));
    return [name, ...cells, ...ratios.map((list) => list[i]?.toFixed(2) ?? "-")];
  });
  const head = ["case", ...names.map((name) => titles[name]), ...compared.map(([title]) => title)];
  const lines = [head, head.map((_, i) => (i ? "---:" : "---")), ...rows].map((row) => `| ${row.join(" | ")} |`);
  const means = compared.map(([title], i) => {
    const known = ratios[i].filter((value) => value !== undefined);
    const faster = known.filter((value) => value > 1).length;
    return `Geometric mean of ${title}: ${geometricMean(known).toFixed(2)}; above 1 in ${faster} of ${known.length}.`;
  });
  const first = [...byCase].map(([name, entries]) => [name, ...entries.map(({ first_ms }) => first_ms)]);
  return [
    `${date}; ${adapter}; ${browser}; ${cores} cores, ${cpu}; load ${load.map((x) => x.toFixed(1)).join(" to ")}.`,
    `${names.map((name) => `${titles[name]} ${versions[name]}`).join(", ")}. Medians of ${runs} runs, ± half the middle half`,
    "(in brackets: how many runs, where fewer). Milliseconds.",
    "",
    ...lines,
    "",
    ...means,
    ...firstRuns(first, names),
    ...thirdRuns(results, names),
    ...stepsOfTraining(results),
    ...downloads(results),
    ...(footnotes.length ? ["", ...footnotes.map((text, i) => `(${i + 1}) ${text}`)] : []),
  ].join("\n");
}

/** What first runs cost: compiling shaders, and making what is kept. */
function firstRuns(first, names) {
  const sums = names.map((_, i) => first.map((row) => row[i + 1]).filter((ms) => ms !== undefined));
  if (sums.every((list) => list.length === 0)) return [];
  const words = names.map((name, i) => (sums[i].length ? `${titles[name]} ${digits(median(sums[i]))}` : `${titles[name]} -`));
  return ["", `First runs (compiling included), median over the cases: ${words.join(", ")} ms.`];
}

/** How soon a case takes what it takes from then on: its third run, which is the first that is timed, beside its median. */
function thirdRuns(results, names) {
  const known = results.filter(({ runs, first_ms, third_ms }) => runs > 2 && first_ms !== undefined && third_ms);
  const words = names.flatMap((name) => {
    const own = known.filter(({ library }) => library === name);
    const slow = own.map((entry) => [entry.case, entry.third_ms / entry.median_ms]).filter(([, times]) => times > 1.3);
    const which = slow.map(([given, times]) => `${given} ${times.toFixed(1)}`).join(", ");
    return own.length ? [`${titles[name]} ${slow.length} of ${own.length}${which && ` (${which})`}`] : [];
  });
  return words.length ? ["", `Third runs of more than 1.3 medians: ${words.join("; ")}.`] : [];
}

/** What a step of training is made of, where a library counts it. */
function stepsOfTraining(results) {
  const known = results.filter(({ case: name, counts }) => counts && name.startsWith("train"));
  const words = known.map(({ case: name, library, counts: { submits, kernels, buffers } }) =>
    `${titles[library]}, ${name}: ${submits} submissions, ${kernels} kernels, ${buffers} new buffers`);
  return words.length ? ["", `In the last step: ${words.join("; ")}.`] : [];
}

function downloads(results) {
  const known = results.filter(({ gzip_bytes }) => gzip_bytes);
  if (!known.length) return [];
  const words = known.map(({ library, gzip_bytes }) => `${titles[library]} ${(gzip_bytes / 1000).toFixed(0)} KB`);
  return ["", `Downloaded for the first result, gzip -9: ${words.join(", ")}.`];
}
