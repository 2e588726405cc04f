// One native port for each page; all messages pass unread.
chrome.runtime.onConnect.addListener((page) => {
  const host = chrome.runtime.connectNative("dev.mcpb.floor");
  host.onMessage.addListener((message) => page.postMessage(message));
  page.onMessage.addListener((message) => host.postMessage(message));
});
