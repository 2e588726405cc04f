/** Dates and times as people spell them, as the browser wants them; null where two readings are possible. */

const MONTHS = "january february march april may june july august september october november december".split(" ");

/** @type {Record<string, {read: (text: string) => string | null, form: string}>} */
const DATED = {
  date: { read: dateOf, form: "2026-11-22" },
  time: { read: timeOf, form: "14:30" },
  "datetime-local": { read: momentOf, form: "2026-11-22T14:30" },
  month: { read: monthOf, form: "2026-11" },
  week: { read: weekOf, form: "2026-W47" },
};

/** @param {string} word English, whole or its beginning: `Nov` @returns {number} 1 to 12, 0 for none */
function monthNumber(word) {
  const name = word.toLowerCase().replace(/\.$/, "");
  return name.length < 3 ? 0 : MONTHS.findIndex((month) => month.startsWith(name)) + 1;
}

/** @param {string | number} number @param {number} digits */
function padded(number, digits) {
  return String(Number(number)).padStart(digits, "0");
}

/** Year first, or the month by its name. @param {string} text */
function dateOf(text) {
  const numbers = /^(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})$/.exec(text.trim());
  if (numbers) return `${numbers[1]}-${padded(String(numbers[2]), 2)}-${padded(String(numbers[3]), 2)}`;
  const dayFirst = /^(\d{1,2})(?:st|nd|rd|th|\.)?\s+(\p{L}+\.?),?\s+(\d{4})$/u.exec(text.trim());
  if (dayFirst) return named(String(dayFirst[3]), String(dayFirst[2]), String(dayFirst[1]));
  const monthFirst = /^(\p{L}+\.?)\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})$/u.exec(text.trim());
  return monthFirst ? named(String(monthFirst[3]), String(monthFirst[1]), String(monthFirst[2])) : null;
}

/** @param {string} year @param {string} word @param {string} day */
function named(year, word, day) {
  const month = monthNumber(word);
  return month ? `${year}-${padded(month, 2)}-${padded(day, 2)}` : null;
}

/** @param {string} text */
function timeOf(text) {
  const parts = /^(\d{1,2})(?::(\d{2}))?(:\d{2}(?:\.\d{1,3})?)?\s*([ap])?\.?(?:m\.?)?$/i.exec(text.trim());
  if (!parts || (!parts[2] && !parts[4])) return null;
  const half = parts[4]?.toLowerCase();
  let hour = Number(parts[1]);
  if (half && (hour < 1 || hour > 12)) return null;
  if (half) hour = (hour % 12) + (half === "p" ? 12 : 0);
  return `${padded(hour, 2)}:${parts[2] ?? "00"}${parts[3] ?? ""}`;
}

/** @param {string} text */
function momentOf(text) {
  const parts = /^(.+?)(?:T|,?\s+)(\d{1,2}:.*|\d{1,2}\s*[ap]\.?m\.?)$/i.exec(
    text.trim().replace(/(?:Z|[+-]\d\d:?\d\d)$/, ""),
  );
  const date = parts && dateOf(String(parts[1]));
  const time = parts && timeOf(String(parts[2]));
  return date && time ? `${date}T${time}` : null;
}

/** @param {string} text */
function monthOf(text) {
  const numbers = /^(\d{4})[-/.](\d{1,2})$/.exec(text.trim());
  if (numbers) return `${numbers[1]}-${padded(String(numbers[2]), 2)}`;
  const turned = /^(\d{1,2})[-/.](\d{4})$/.exec(text.trim());
  if (turned) return `${turned[2]}-${padded(String(turned[1]), 2)}`;
  const words = /^(\p{L}+\.?),?\s+(\d{4})$/u.exec(text.trim());
  const month = words ? monthNumber(String(words[1])) : 0;
  return words && month ? `${words[2]}-${padded(month, 2)}` : null;
}

/** @param {string} text */
function weekOf(text) {
  const yearFirst = /^(\d{4})[\s-]*w(?:eek)?\s*(\d{1,2})$/i.exec(text.trim());
  if (yearFirst) return `${yearFirst[1]}-W${padded(String(yearFirst[2]), 2)}`;
  const weekFirst = /^w(?:eek)?\s*(\d{1,2}),?\s+(\d{4})$/i.exec(text.trim());
  return weekFirst ? `${weekFirst[2]}-W${padded(String(weekFirst[1]), 2)}` : null;
}
