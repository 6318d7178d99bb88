// The search: reads the index once, on the first word, and shows the sections that hold every word of the query.
"use strict";

const SHOWN = 20;
const base = document.currentScript.dataset.base;
const input = document.getElementById("query");
const results = document.getElementById("results");
let sections;

/** Sections of the index: `{location, page, title, text}`, with their text in lower case beside it. */
async function load() {
  const answer = await fetch(`${base}/search/search_index.json`);
  if (!answer.ok) throw new Error(`the index cannot be read: ${answer.status}`);
  return (await answer.json()).map((one) => ({
    ...one,
    lowTitle: one.title.toLowerCase(),
    lowText: one.text.toLowerCase(),
    lowPage: one.page.toLowerCase(),
  }));
}

function words(query) {
  return query.toLowerCase().match(/[\p{L}\p{N}][\p{L}\p{N}_.-]*/gu) ?? [];
}

/** A pattern for words that begin with the stem of a word: "copies" finds "copied" and "copying" as well. */
function pattern(word) {
  const stem = word.length > 5 ? word.replace(/(?:ing|ies|ied|ed|es|s|y)$/, "") : word;
  return new RegExp(`(?<![\\p{L}\\p{N}])${stem.replace(/[.-]/g, "\\$&")}`, "gu");
}

/** How well a section answers: 0 when it lacks a word. Titles count more than text, pages for developers less. */
function score(section, patterns) {
  let sum = 0;
  for (const one of patterns) {
    const inText = section.lowText.match(one)?.length ?? 0;
    const inTitle = section.lowTitle.match(one)?.length ?? 0;
    if (inText + inTitle === 0) return 0;
    sum += inTitle * 10 + Math.log1p(inText) + (section.lowPage.match(one) ? 4 : 0);
  }
  return section.location.startsWith("develop/") ? sum / 2 : sum;
}

function excerpt(section, patterns) {
  const at = Math.max(0, section.lowText.search(patterns[0]));
  const from = Math.max(0, at - 60);
  return `${from > 0 ? "..." : ""}${section.text.slice(from, from + 160)}...`;
}

function entry(section, patterns) {
  const item = document.createElement("li");
  const link = document.createElement("a");
  link.href = `${base}/${section.location}`;
  link.textContent = section.title === section.page ? section.title : `${section.page}: ${section.title}`;
  const text = document.createElement("p");
  text.textContent = excerpt(section, patterns);
  item.append(link, text);
  return item;
}

function message(text) {
  const item = document.createElement("li");
  item.textContent = text;
  return item;
}

async function search() {
  const query = input.value;
  const patterns = words(query).map(pattern);
  results.hidden = patterns.length === 0;
  if (patterns.length === 0) return;
  try {
    sections ??= await load();
  } catch (why) {
    results.replaceChildren(message(`The search does not work: ${why.message}.`));
    return;
  }
  if (query !== input.value) return;
  const found = sections
    .map((section) => ({ section, score: score(section, patterns) }))
    .filter((one) => one.score > 0)
    .sort((a, b) => b.score - a.score)
    .slice(0, SHOWN);
  results.replaceChildren(...found.map((one) => entry(one.section, patterns)));
  if (found.length === 0) results.append(message("No section has all of these words."));
}

input.addEventListener("input", search);
results.addEventListener("click", () => (results.hidden = true));
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target !== input) {
    event.preventDefault();
    input.focus();
  }
  if (event.key === "Escape") results.hidden = true;
});
