/**
 * Ways in which a page tries to reach another site, by name. The page defines BANK (the origin of that site), OTHER (a
 * page of a third site that loads an image from it) and FRAME (a page that opens it when it is clicked).
 */

const add = (made) => (typeof made === "string" ? document.body.insertAdjacentHTML("beforeend", made) : document.body.append(made));
const make = (tag, members) => Object.assign(document.createElement(tag), members);
const blob = (text, type) => URL.createObjectURL(new Blob([text], { type }));
const quietly = (path, options) => fetch(BANK + path, { mode: "no-cors", ...options }).catch(() => {});
const script = (path) => blob(`fetch('${BANK}${path}', {mode: 'no-cors'})`, "text/javascript");
const image = (path) => `<img src=${BANK}${path}>`;

function submit(target, path) {
  const form = make("form", { method: "post", target, action: BANK + path });
  add(form);
  form.submit();
}

function follow(path, how) {
  const link = make("a", { href: BANK + path, ...how });
  add(link);
  link.click();
}

async function askServiceWorker(path) {
  await navigator.serviceWorker.register("/worker.js");
  const { active } = await navigator.serviceWorker.ready;
  const { port1, port2 } = new MessageChannel();
  const done = new Promise((resolve) => (port1.onmessage = resolve));
  active.postMessage({ fetch: BANK + path, port: port2 }, [port2]);
  await done;
}

/** The page stays. */
const staying = {
  fetch: () => quietly("/fetch", { credentials: "include" }),
  post: () => quietly("/post", { method: "POST", body: "x" }),
  image: () => add(image("/image")),
  beacon: () => navigator.sendBeacon(BANK + "/beacon", "x"),
  websocket: () => void new WebSocket(BANK.replace("http", "ws") + "/socket"),
  iframe: () => add(make("iframe", { src: BANK + "/frame" })),
  srcdoc: () => add(make("iframe", { srcdoc: image("/srcdoc") })),
  blobFrame: () => add(make("iframe", { src: blob(image("/blob"), "text/html") })),
  sandboxedFrame: () => add(make("iframe", { sandbox: "allow-scripts", srcdoc: image("/sandbox") })),
  worker: () => void new Worker(script("/worker")),
  sharedWorker: () => void new SharedWorker(script("/shared")),
  sharedWorkerWithoutOrigin: () => {
    const text = `fetch('${BANK + "/opaqueworker"}', {mode: 'no-cors'})`;
    new SharedWorker(`data:text/javascript,${encodeURIComponent(text)}`);
  },
  pictureInPicture: async () => {
    const { document } = await documentPictureInPicture.requestWindow();
    const sandboxed = make("iframe", { sandbox: "allow-scripts", srcdoc: image("/pictureimage") });
    document.body.append(make("iframe", { src: BANK + "/picture" }), sandboxed);
  },
  serviceWorker: () => askServiceWorker("/service"),
  prefetch: () => add(make("link", { rel: "prefetch", href: BANK + "/prefetch" })),
  speculationRules: () => {
    const [list, eagerness] = [{ source: "list" }, "immediate"];
    const rules = {
      prefetch: [{ ...list, eagerness, urls: [BANK + "/speculation"] }],
      prerender: [{ ...list, eagerness, urls: [BANK + "/prerender"] }],
    };
    add(make("script", { type: "speculationrules", textContent: JSON.stringify(rules) }));
  },
  popup: () => void window.open(BANK + "/popup"),
  popupWithoutOpener: () => void window.open(BANK + "/noopener", "_blank", "noopener"),
  redirectedPopup: () => void window.open("/redirect"),
  linkWithoutReferrer: () => follow("/link", { target: "_blank", rel: "noopener noreferrer" }),
  postInNewTab: () => submit("_blank", "/newtab"),
  blankPopup: () => void (window.open("about:blank").location = BANK + "/blank"),
  blankPopupLater: () => {
    const opened = window.open("about:blank");
    setTimeout(() => (opened.location = BANK + "/later"), 200);
  },
  imageInBlankPopup: () => void (window.open("about:blank").document.body.innerHTML = image("/popupimage")),
  imageInPopupOfAnotherSite: () => void window.open(OTHER),
  userInformation: () => void window.open(BANK.replace("//", "//user:pw@") + "/user"),
  finalDot: () => void window.open(BANK.replace("localhost:", "localhost.:") + "/dot"),
  clickableFrame: () => new Promise((onload) => add(make("iframe", { id: "framed", src: FRAME, onload }))),
};

/** The page would be left. */
const leaving = {
  location: () => void (location.href = BANK + "/location"),
  redirect: () => void (location.href = "/redirect"),
  redirectChain: () => void (location.href = "/chain"),
  metaRefresh: () => add(`<meta http-equiv=refresh content='0;${BANK}/meta'>`),
  post: () => submit("_self", "/left"),
  link: () => follow("/link", {}),
};
