// The suite calls its fixtures by bare names; ours carry the site and the tab that they live in. So the names are
// changed in the suite, as Node loads it: what it says and hears is untouched, and nothing stands between it and the
// server. FIXTURE_NAMES: JSON, from the suite's names to ours.
import { registerHooks } from "node:module";

const names = JSON.parse(process.env.FIXTURE_NAMES);
const written = new RegExp(`\\b(?:${Object.keys(names).join("|")})\\b`, "g");

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (!/\/conformance[^/]*\/dist\//.test(url)) return loaded;
    return { ...loaded, source: String(loaded.source).replace(written, (name) => names[name]) };
  },
});
