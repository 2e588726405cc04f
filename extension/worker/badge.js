/** The badge of the toolbar button: what waits for the user. */

/** @param {{ prompts: number, left: number }} waiting `left`: tabs of ended sessions that the user may close */
export function showBadge({ prompts, left }) {
  void chrome.action.setBadgeText({ text: String(prompts || left || "") });
  void chrome.action.setTitle({ title: titleOf(prompts, left) });
}

/** @param {number} prompts @param {number} left */
function titleOf(prompts, left) {
  if (prompts > 0) return "mcpb: a client waits for you";
  return left > 0 ? `mcpb: ${left === 1 ? "a tab was" : `${left} tabs were`} left open by clients` : "mcpb";
}
