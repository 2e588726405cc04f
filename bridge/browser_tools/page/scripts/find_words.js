/** What a description of an element means: its words, other words for the same, and the kinds that it may mean. */

/** Words that say which kind is meant.
 * @type {Record<string, string>} */
const KIND_WORDS = {
  button: "button",
  btn: "button",
  link: "link",
  field: "textbox searchbox combobox spinbutton slider listbox",
  input: "textbox searchbox combobox spinbutton slider checkbox radio",
  box: "textbox searchbox checkbox",
  bar: "searchbox textbox combobox slider navigation toolbar",
  textbox: "textbox searchbox combobox",
  textarea: "textbox",
  editor: "textbox",
  searchbox: "searchbox textbox combobox",
  checkbox: "checkbox switch",
  tickbox: "checkbox switch",
  radio: "radio",
  switch: "switch checkbox",
  toggle: "switch checkbox button",
  slider: "slider",
  dropdown: "combobox listbox button",
  select: "combobox listbox",
  selector: "combobox listbox radio",
  picker: "combobox listbox textbox button",
  combobox: "combobox",
  option: "option menuitem radio",
  filter: "checkbox combobox radio listbox searchbox slider spinbutton",
  menu: "menu menubar menuitem navigation",
  menuitem: "menuitem",
  tab: "tab",
  heading: "heading",
  headline: "heading",
  title: "heading",
  image: "img",
  picture: "img",
  photo: "img",
  illustration: "img",
  icon: "img button link",
  avatar: "img",
  logo: "img link",
  table: "table grid",
  row: "row",
  cell: "cell gridcell",
  column: "columnheader",
  header: "banner columnheader heading",
  footer: "contentinfo",
  list: "list listbox",
  item: "listitem row menuitem option item",
  entry: "listitem row item",
  card: "article listitem group region item",
  product: "article listitem row item",
  result: "article listitem row item",
  form: "form",
  dialog: "dialog alertdialog",
  modal: "dialog alertdialog",
  popup: "dialog alertdialog",
  section: "region group article complementary",
  panel: "region group tabpanel complementary",
  sidebar: "complementary navigation",
  navigation: "navigation",
  nav: "navigation",
  message: "alert status",
  notification: "alert status",
  banner: "alert status region dialog banner",
  text: "paragraph",
  paragraph: "paragraph",
  frame: "iframe",
  iframe: "iframe",
  video: "video",
  canvas: "canvas",
};
/** Kinds that words for others may mean where only a picture of the page was seen.
 * @type {Record<string, string>} */
const LOOKALIKES = {
  button: "link tab switch menuitem combobox",
  btn: "link tab switch menuitem combobox",
  link: "button tab menuitem",
  tab: "link button radio",
  checkbox: "button radio menuitemcheckbox menuitemradio",
  radio: "checkbox button tab option",
  switch: "button radio",
  toggle: "radio",
  box: "combobox",
  dropdown: "textbox searchbox link radio",
  select: "button textbox",
  selector: "button textbox searchbox link",
  picker: "link radio",
  menu: "button combobox link",
  option: "checkbox link button",
  icon: "switch checkbox",
  heading: "link",
  title: "link",
  image: "link button",
  picture: "link button",
  photo: "link button",
  column: "button link cell",
  cell: "rowheader link",
  row: "listitem article",
  item: "link",
  product: "link",
  result: "link",
  filter: "button link group",
  message: "paragraph dialog",
  banner: "group",
};
/** Kinds that mean a text, so that what is acted on is no likelier. */
const TEXT_KINDS = new Set("paragraph heading img cell gridcell columnheader alert status row table list".split(" "));
/** Words for kinds that things are done to: behind an action they say what it is done to. */
const DONE_TO = new Set(
  (
    "message notification banner text paragraph image picture photo illustration table row cell column header footer " +
    "list item entry card product result form dialog modal popup section panel sidebar title heading headline video"
  ).split(" "),
);
/** Kinds that are called as what is in them. */
const CONTAINERS = new Set(
  (
    "item row listitem article group region form dialog alertdialog navigation table grid list complementary " +
    "contentinfo banner alert status paragraph cell gridcell tabpanel toolbar"
  ).split(" "),
);
/** Words for a kind that a name may have as well. */
const KINDS_AND_WORDS = new Set("avatar select filter product result search menu logo bar column header footer navigation notification message".split(" "));
/** What kinds are called, where they are what others are in.
 * @type {Record<string, string>} */
const PLACES = {
  banner: "header top bar",
  contentinfo: "footer bottom",
  navigation: "navigation nav menu bar pagination",
  complementary: "sidebar side bar aside panel",
  main: "main content",
  dialog: "dialog popup modal window",
  alertdialog: "dialog popup modal window alert",
  form: "form",
  table: "table",
  grid: "table grid",
  row: "row",
  alert: "error alert warning message",
  status: "status notification message toast",
  toolbar: "toolbar bar",
  article: "article card post",
  blockquote: "quote quotation",
  figure: "figure",
};

const SMALL_WORDS = new Set(
  (
    "a an the to at with and or is are be that this which element please me my your our i we it its their there here " +
    "labeled labelled called named says saying reading where click press tap into onto as do does can"
  ).split(" "),
);
/** After these stands what an element is in. */
const CONNECTORS = new Set("of for in from on under below beside near within inside by over above beneath when".split(" "));
/** Words of looks and places: they count where a name has them. */
const LOOKS = new Set(
  (
    "red green blue orange yellow black white grey gray purple pink dark light big large small little top bottom left " +
    "right corner upper lower main first second third fourth fifth sixth seventh eighth ninth tenth last currently 1st " +
    "2nd 3rd 4th 5th site website shown showing visible colored coloured round primary secondary all any every some"
  ).split(" "),
);
/** Words that are behind others, and say little of themselves. */
const GENERIC = new Set(
  (
    "number area version info information value data thing part control widget feature page size time date day code " +
    "name picture section video mail airport"
  ).split(" "),
);
/** @type {Record<string, number>} */
const ORDINALS = {
  first: 0,
  "1st": 0,
  second: 1,
  "2nd": 1,
  third: 2,
  "3rd": 2,
  fourth: 3,
  "4th": 3,
  fifth: 4,
  "5th": 4,
  sixth: 5,
  seventh: 6,
  eighth: 7,
  ninth: 8,
  tenth: 9,
  last: -1,
};
/** Words that stand before what is done to something. */
const ACTIONS = new Set(
  (
    "add remove delete edit change update close show hide pay book reserve submit send save cancel buy apply " +
    "confirm continue download upload attach print share copy reply forward archive mark star like follow play pause " +
    "mute stop start skip sort clear reset expand collapse increase decrease sign log create new dismiss accept reject " +
    "decline undo retry refresh write compose toggle report remind notify bookmark reveal track invite " +
    "unsubscribe subscribe swap repeat open view choose select enter type read go zoom rate listen call"
  ).split(" "),
);
/** Actions that are done to anything, so that they seldom have a button of their own. */
const BROAD_ACTIONS = new Set("open view choose select enter type read go show change".split(" "));
/** States of things: who names one means what shows it. */
const STATUSES = new Set(
  (
    "overdue|paid|unpaid|closed|active|inactive|selected|disabled|unread|completed|pending|cancelled|failed|expired|" +
    "unavailable|checked|unchecked|pressed|chosen|sold out|out of stock|in stock"
  ).split("|"),
);
/** States as a line of an element has them. */
const STATES = new Set("selected disabled pressed checked chosen active required invalid expanded collapsed".split(" "));
/** What users type: who names it alone means the field.
 * @type {Set<string>} */
const TYPED = new Set(
  (
    "zip|postal code|postcode|zip code|email|email address|phone|phone number|telephone|mobile|first name|last name|" +
    "surname|full name|name|city|town|country|state|province|company|password|username|birthday|date of birth|dob|" +
    "address|street|street address|comment|note|notes|message|quantity|qty|coupon|voucher|promo code|card number|cvc|" +
    "expiry|cardholder|bio|biography|language|currency|passengers|guests|destination|origin|departure|arrival|" +
    "departure date|return date|check in|check out|instructions|new password|current password|old password|" +
    "confirm password|subject|recipient|time zone|discount code|coupon code|description|travelers|travellers"
  ).split("|"),
);

/** Words that mean the same to those who look for a control. */
const SAME = [
  "zip|postal code|postcode|post code|zip code|zipcode",
  "birthday|date of birth|birth date|birthdate|dob|born|bday",
  "address|street|street address|address line 1|address line|street line|street and number",
  "first name|given name|forename|full name|your name|=name",
  "last name|surname|family name|full name|your name|=name",
  "full name|your name|=name|first name|given name",
  "phone|telephone|mobile|phone number|tel|cell phone|mobile number",
  "email|email address|mail|mail address|=user name|=username",
  "username|user name|user id|display name|nickname|account name|=user|=login|email",
  "password|passphrase|pin|passcode",
  "city|town|place|municipality",
  "state|province|region|county",
  "country|nation|country region",
  "company|organization|organisation|business|firm|employer",
  "submit|send|next|continue|save|confirm|place order|order now|post|finish|done|apply|=ok|=go|proceed|log in|sign in|search|book",
  "send|submit|post",
  "continue|next|proceed|go on|forward",
  "next|continue|forward|following|older|right",
  "previous|prev|back|newer|left|earlier",
  "back|previous|return|go back",
  "save|submit|apply|store|update|keep",
  "ok|okay|confirm|yes|done|got it|accept",
  "confirm|ok|yes|done|submit",
  "login|log in|sign in|signin|log on|sign on",
  "logout|log out|sign out|signout|log off",
  "register|sign up|signup|create account|create an account|join|registration|new account",
  "forgot password|reset password|lost password|forgotten password|password help",
  "sold out|out of stock|unavailable|not available|not in stock",
  "in stock|available|availability",
  "stock|availability|available|in stock",
  "basket|cart|bag|shopping cart|shopping bag|trolley",
  "cart|basket|bag|shopping cart|trolley",
  "checkout|check out|proceed to checkout|place order|pay",
  "buy|purchase|order|add to cart|add to basket|buy now",
  "add|plus|new|create|insert|increase",
  "new|create|add|compose",
  "create|new|add|make",
  "compose|write|new message|new mail|new email",
  "pay|payment|purchase|place order|checkout",
  "place order|order now|buy now|pay now|complete order|submit order|complete purchase",
  "order|purchase",
  "pagination|pages|pager|page navigation",
  "quantity|qty|amount|count|number|how many|pieces",
  "amount|sum|total|value|quantity",
  "total|sum|grand total|to pay|amount due|amount",
  "delivery|shipping|ships|ship|deliver|dispatch|shipment",
  "shipping|delivery|postage",
  "coupon|voucher|promo|promo code|discount code|coupon code|promotion code|gift code",
  "discount|coupon|voucher|promo|rebate|sale|reduction",
  "search|find|look for|query|lookup",
  "filter|refine|narrow|filters",
  "sort|order by|sort by|sorting|sorted by",
  "delete|remove|trash|bin|discard|erase|close",
  "remove|delete|trash|bin|discard|take out",
  "trash|bin|delete|deleted|rubbish",
  "edit|change|modify|pencil|update",
  "change|edit|modify|update",
  "close|dismiss|cancel|=x|hide",
  "dismiss|close|no thanks|hide|not now",
  "cancel|abort|discard|never mind",
  "accept|agree|allow|accept all|=ok|consent|got it|read",
  "agree|accept|terms|consent|i agree",
  "terms|terms and conditions|conditions|terms of service|terms of use|terms of sale|agreement|tos",
  "reject|decline|refuse|deny|only necessary|necessary only|only essential|=no|no thanks",
  "settings|preferences|options|configuration|gear|cog",
  "preferences|settings|options",
  "profile|account|my account|user|avatar|me",
  "account|profile|my account|user",
  "avatar|profile picture|profile photo|your picture|your photo|user picture|portrait|photo|account of",
  "picture|photo|image|avatar",
  "upload|attach|choose file|browse|select file|add file|file",
  "attach|attachment|upload|paperclip|add file",
  "attachment|attached|file|paperclip",
  "download|save as|export|get|save",
  "export|download|save as",
  "menu|hamburger|navigation|more",
  "hamburger|menu|navigation",
  "more|show more|load more|more options|see all|options",
  "show more|load more|see more|view more|more results|=more",
  "details|more|view|info|information|read more",
  "view|show|open|see|details",
  "show|view|display|reveal|see",
  "like|favorite|favourite|heart|love|thumbs up",
  "favorite|favourite|wishlist|wish list|like|save|heart|star|bookmark",
  "wishlist|wish list|favorites|favourites|save for later|favorite|heart",
  "bookmark|save|favorite|star",
  "star|favorite|favourite|flag|rating|important",
  "rating|stars|review|reviews|rated",
  "review|reviews|rating",
  "share|send to",
  "copy|duplicate|clipboard",
  "reply|respond|answer",
  "forward|fwd|pass on",
  "play|listen|start|resume|play pause|watch",
  "pause|stop|hold|play pause",
  "mute|sound|volume|silence|unmute",
  "volume|sound|loudness",
  "fullscreen|full screen|maximize|enlarge|expand",
  "subtitles|captions|cc|closed captions",
  "speed|playback rate|playback speed|rate",
  "increase|plus|larger|bigger|increment|up|zoom in|add",
  "decrease|minus|smaller|less|decrement|down|zoom out|reduce",
  "expand|open|show|unfold|more",
  "collapse|close|hide|fold|less",
  "help|support|faq|question|assistance|contact",
  "contact|contact us|support|get in touch",
  "home|homepage|home page|start page",
  "notification|notifications|bell|alerts",
  "inbox|messages|mail|incoming",
  "spam|junk",
  "drafts|draft",
  "unread|new",
  "subject|title|topic",
  "recipient|to|receiver",
  "sender|from|author",
  "message|comment|text|body|note|notes",
  "comment|note|notes|discussion|message|remark|remarks",
  "note|notes|comment|remark|message",
  "description|details|about|summary|bio",
  "bio|biography|about you|about me|about|description",
  "newsletter|subscribe|mailing list|news by email|updates",
  "subscribe|follow|newsletter|sign up",
  "unsubscribe|opt out",
  "price|cost|amount|fee|fare|€|$",
  "cost|price|amount|fee|total",
  "departure|depart|from|leaving|outbound|start|check in",
  "arrival|arrive|to|destination|landing",
  "origin|from|departure|leaving from|where from",
  "destination|to|arrival|going to|where to|where",
  "outbound|departure|depart|departing",
  "return|return date|inbound|coming back",
  "passengers|travelers|travellers|guests|adults|people",
  "guests|people|adults|travelers|visitors",
  "check in|checkin|arrival|arrive|arrival date",
  "check out|checkout|departure|leave|departure date",
  "date|day|when",
  "time|hour|when",
  "deadline|due|due date|until|end date",
  "due|deadline|due date",
  "status|state|condition",
  "priority|importance|urgency",
  "task|todo|ticket",
  "done|complete|completed|finished|finish",
  "card number|credit card number|credit card|card",
  "cvc|cvv|security code|card code|card verification",
  "security code|cvc|cvv|card code",
  "expiry|expiration|expiry date|expires|valid until|exp",
  "expiration|expiry|expires|valid until",
  "cardholder|name on card|card holder|holder",
  "remember me|stay signed in|keep me signed in|keep me logged in|stay logged in|remember",
  "language|locale|lang|english|deutsch|german|français|french|español|spanish",
  "currency|eur|usd|gbp|chf|nok|sek|€|$",
  "theme|dark mode|appearance|light mode|night mode",
  "dark mode|dark theme|night mode|dark|theme|appearance",
  "cookie|cookies|consent|privacy",
  "privacy|privacy policy|data protection",
  "error|invalid|failed|wrong|problem|incorrect|must|alert|please",
  "warning|alert|caution|attention",
  "success|saved|done|completed|thank you|successfully",
  "result|results|hit|match|found",
  "product|item|article",
  "item|product|article|entry",
  "gift|gift wrap|present",
  "size|dimension|dimensions",
  "color|colour",
  "brand|manufacturer|maker|vendor",
  "category|categories|department|type|kind",
  "category filter|filter by category",
  "invoice|bill|receipt",
  "paid|settled|payed",
  "unpaid|open|due|outstanding|overdue",
  "overdue|late|past due",
  "customer|client|buyer",
  "user|member|account",
  "gender|sex|title|salutation",
  "title|salutation",
  "website|url|homepage|web site|link",
  "file|document|attachment",
  "calendar|date picker|choose date",
  "refresh|reload|update|sync",
  "retry|try again|again",
  "undo|revert|restore",
  "print|printer",
  "map|directions|how to find us|find us|location|route",
  "location|place|where|city|address",
  "seat|seats|place",
  "follow|subscribe",
  "related|similar|see also|more like this",
  "author|by|written by|writer",
  "published|date|posted",
  "confirm password|repeat password|password again|repeat it|retype password|repeat new password|confirm new password",
  "old password|current password|present password",
  "choose|select|pick|book",
  "select|choose|pick",
  "clear|reset|clear all|remove all|empty",
  "reset|clear|start over|restart",
  "items per page|rows per page|results per page|entries per page|per page|page size",
  "audio|listen|sound",
  "listen|play|audio",
  "careers|jobs|work with us|vacancies",
  "jobs|careers|work with us|vacancies",
  "reset password|forgot password|forgotten password|lost password",
  "instructions|notes|note|comment|driver",
  "save for later|watch later|wishlist|favorite|save|later",
  "watch later|save for later",
  "recommended|up next|suggested|related|read next",
  "related|read next|up next|recommended",
  "likes|like|thumbs up",
  "thumbs up|like",
  "thumbs down|dislike",
  "membership|member|join",
  "start date|from|begin|since",
  "end date|until|to|till",
  "remind|reminder|reminders",
  "reminder|remind",
  "slot|time|appointment",
  "appointment|booking|visit|slot",
  "book|confirm booking|reserve|booking",
  "reserve|book|booking",
  "channel|author|uploader",
  "channel name|author|channel",
  "resolution|quality",
  "quality|resolution",
  "swap|exchange|switch|reverse",
  "two factor|2fa|two step|verification code|one time code|otp",
  "verification code|code|otp|one time code|pin",
  "code|pin|number",
];
/** Signs that stand for words. @type {Record<string, string>} */
const SIGNS = {
  "×": "close remove",
  "✕": "close remove",
  "✖": "close remove",
  "✗": "close remove",
  "☰": "menu",
  "≡": "menu",
  "⋮": "more options",
  "⋯": "more options",
  "🔍": "search",
  "🔎": "search",
  "🛒": "cart",
  "🛍": "bag",
  "♥": "heart like favorite wishlist",
  "♡": "heart like favorite wishlist",
  "❤": "heart like favorite wishlist",
  "★": "star rating",
  "☆": "star",
  "⚙": "settings",
  "🗑": "delete",
  "✎": "edit",
  "✏": "edit",
  "🖊": "edit",
  "▶": "play next",
  "⏸": "pause",
  "⏵": "play",
  "⏭": "next skip",
  "⏮": "previous",
  "🔊": "volume",
  "🔇": "mute",
  "⛶": "fullscreen",
  "›": "next",
  "»": "next last",
  "→": "next",
  "‹": "previous",
  "«": "previous first",
  "←": "previous back",
  "↓": "download descending",
  "⬇": "download",
  "↑": "upload ascending",
  "▲": "up ascending",
  "▼": "down descending",
  "+": "plus add increase",
  "−": "minus decrease",
  "–": "minus decrease",
  "-": "minus decrease",
  "?": "help",
  "🔔": "notifications",
  "📎": "attach",
  "🌙": "dark mode",
  "🏠": "home",
  "👤": "account profile",
  "✓": "done check",
  "✔": "done check",
  "⟳": "refresh",
  "↻": "refresh",
  "⤢": "fullscreen",
};

/** Words of one line at most. */
const MAX_MEANING = 24;

/** @type {Map<string, string[]>} */
const alikeTo = new Map();
for (const line of SAME) {
  const [word = "", ...others] = line.split("|");
  alikeTo.set(word, others);
}
// Who uses another word for it means the same.
const meanings = SAME.map((line) => line.split("|"));
for (let at = 1; at < MAX_MEANING; at++) {
  for (const words of meanings) {
    const each = words[at];
    if (each && !each.startsWith("=") && !alikeTo.has(each)) alikeTo.set(each, words.filter((other) => other !== each));
  }
}

/** Words one space apart, without case and accents, names of programs taken apart.
 * @param {string} text */
function spaced(text) {
  const apart = text.replace(/(\p{Ll})(\p{Lu})/gu, "$1 $2");
  return folded(apart)
    .replace(/['’]s\b/g, "")
    .replace(/\be-mail/g, "email")
    .replace(/[^\p{L}\p{N}€$£]+/gu, " ")
    .trim();
}

/** @param {string} text a name without letters */
function signsIn(text) {
  return Array.from(text, (sign) => SIGNS[sign] ?? "").join(" ").trim();
}

/**
 * A word, or words that have one meaning.
 * @typedef {object} Term
 * @property {string} words
 * @property {RegExp} exact
 * @property {RegExp} loose the beginning of its words
 * @property {RegExp | null} alike other words for it
 * @property {RegExp | null} perhaps words that may mean it
 * @property {number} weight
 * @property {"head" | "before" | "after"} place the head says what is meant; after: what it is in
 * @property {boolean} isAction
 * @property {boolean} isBroad an action that seldom has a button of its own
 * @property {boolean} isLook
 * @property {boolean} isState
 * @property {boolean} isKind it is a word for a kind as well
 */

/**
 * @typedef {object} Query
 * @property {string} phrase
 * @property {Term[]} terms
 * @property {Set<string>} roles those that are meant
 * @property {Set<string>} lookalikes
 * @property {boolean} isTyped a field is meant
 * @property {string[]} kinds the words for them
 * @property {number | null} ordinal -1 is the last
 */

/** @param {string} text @returns {Query} */
function queryOf(text) {
  const words = spaced(withoutPossessive(text.slice(0, 500))).split(" ").filter(Boolean).slice(0, 24);
  const parts = partsOf(words);
  const isEmpty = !parts.terms.length && !parts.kinds.length;
  // Words that say nothing of themselves may be all of a name.
  const terms = isEmpty ? words.map((each) => ({ words: each, isAfter: false })) : parts.terms;
  const { kinds, ordinal } = parts;
  const head = headOfPhrase(terms, parts.endsWithKind);
  const roles = new Set(kinds.flatMap((kind) => (KIND_WORDS[kindWord(kind)] ?? "").split(" ")));
  const looks = kinds.flatMap((kind) => (LOOKALIKES[kindWord(kind)] ?? "").split(" ")).filter(Boolean);
  const isTyped = !kinds.length && terms.some((term) => TYPED.has(term.words) && !term.isAfter) && terms.every((term) => !ACTIONS.has(term.words));
  return {
    phrase: terms.map((term) => term.words).join(" "),
    terms: terms.map((term) => termOf(term, term === head ? "head" : term.isAfter ? "after" : "before", kinds)),
    roles,
    lookalikes: new Set(looks),
    isTyped,
    kinds,
    ordinal,
  };
}

/** “Edit Owen's note” as “edit note of Owen”.
 * @param {string} text */
function withoutPossessive(text) {
  const [, before = "", owner = "", owned = ""] = /^(.*?)(\S+(?: \S+)?)['’]s\s+(.+)$/s.exec(text) ?? [];
  if (!owned) return text;
  const [first = "", ...others] = owner.split(" ");
  const word = first.toLowerCase();
  const isOther = others.length > 0 && (ACTIONS.has(word) || CONNECTORS.has(word) || SMALL_WORDS.has(word));
  return isOther ? `${before} ${first} ${owned} of ${others.join(" ")}` : `${before} ${owned} of ${owner}`;
}

/** @typedef {{words: string, isAfter: boolean}} QueryTerm */

/** @param {string[]} words */
function partsOf(words) {
  /** @type {QueryTerm[]} */
  const terms = [];
  /** @type {string[]} */
  const kinds = [];
  /** @type {number | null} */
  let ordinal = null;
  let isAfter = false;
  let endsWithKind = false;
  const acts = ACTIONS.has(words[0] ?? "") && !BROAD_ACTIONS.has(words[0] ?? "");
  for (let at = 0; at < words.length; ) {
    const count = phraseLength(words, at);
    const phrase = words.slice(at, at + count).join(" ");
    at += count;
    if (CONNECTORS.has(phrase)) {
      isAfter ||= (terms.length > 0 || kinds.length > 0) && at < words.length;
      continue;
    }
    const kind = count === 1 && !isAfter ? kindWord(phrase) : "";
    if (kind && acts && DONE_TO.has(kind)) {
      terms.push({ words: phrase, isAfter: true });
      continue;
    }
    if (kind) {
      kinds.push(phrase);
      endsWithKind = true;
      if (!KINDS_AND_WORDS.has(kind)) continue;
    }
    if (SMALL_WORDS.has(phrase)) continue;
    if (!isAfter && !kind) endsWithKind = false;
    if (Object.hasOwn(ORDINALS, phrase)) ordinal ??= ORDINALS[phrase] ?? null;
    terms.push({ words: phrase, isAfter });
  }
  return { terms, kinds, ordinal, endsWithKind };
}

/** How many of the words from here on have one meaning together.
 * @param {string[]} words @param {number} at */
function phraseLength(words, at) {
  for (let count = Math.min(3, words.length - at); count > 1; count--) {
    if (alikeTo.has(words.slice(at, at + count).join(" "))) return count;
  }
  return 1;
}

/** @param {string} word @returns {string} the word in KIND_WORDS, or nothing */
function kindWord(word) {
  return (
    [word, word.replace(/e?s$/, ""), word.replace(/s$/, "")].find((form) => Object.hasOwn(KIND_WORDS, form)) ?? ""
  );
}

/** The word that says what is meant: what is done, a state, else the last word before what it is in.
 * @param {QueryTerm[]} terms @param {boolean} endsWithKind @returns {QueryTerm | undefined} */
function headOfPhrase(terms, endsWithKind) {
  const before = terms.filter((term) => !term.isAfter && !LOOKS.has(term.words));
  const [first] = before;
  if (first && before.length > 1 && ACTIONS.has(first.words) && !BROAD_ACTIONS.has(first.words)) return first;
  if (endsWithKind) return undefined;
  const said = before.filter((term) => !GENERIC.has(term.words) && !BROAD_ACTIONS.has(term.words));
  return said.find((term) => STATUSES.has(term.words)) ?? said.at(-1) ?? before.at(-1);
}

/** @param {QueryTerm} term @param {Term["place"]} place @param {string[]} kinds @returns {Term} */
function termOf({ words }, place, kinds) {
  const others = alikeTo.get(words) ?? alikeTo.get(words.replace(/s$/, "")) ?? [];
  const isKind = kinds.includes(words);
  return {
    words,
    exact: wordsIn([words]),
    loose: words.length > 1 ? new RegExp(`(?:^| )${escapeWord(stemOf(words))}`) : wordsIn([words]),
    alike: others.length ? wordsIn(others.slice(0, SURE_OTHERS)) : null,
    perhaps: others.length > SURE_OTHERS ? wordsIn(others.slice(SURE_OTHERS)) : null,
    weight: isKind ? 0.5 : place === "head" ? 1.3 : /\d\d/.test(words) ? 1.5 : GENERIC.has(words) ? 0.5 : 1,
    place,
    isAction: ACTIONS.has(words),
    isBroad: BROAD_ACTIONS.has(words),
    isLook: LOOKS.has(words),
    isState: STATES.has(words),
    isKind,
  };
}

/** Of the other words for one, those that surely mean the same come first. */
const SURE_OTHERS = 4;

/** Whether one of these is in a text. `=ok` has to be all of it; small words may be between.
 * @param {string[]} phrases */
function wordsIn(phrases) {
  const patterns = phrases.map((phrase) =>
    phrase.startsWith("=")
      ? `^${escapeWord(phrase.slice(1))}$`
      : `(?:^| )${phrase.split(" ").map(escapeWord).join(" (?:(?:your|my|the|a|an|our) )?")}(?: |$)`,
  );
  return new RegExp(patterns.join("|"));
}

/** @param {string} word */
function escapeWord(word) {
  return word.replace(/[^\p{L}\p{N} ]/gu, "\\$&");
}

/** What a word and its other forms begin with.
 * @param {string} word */
function stemOf(word) {
  if (word.length < 4 || word.includes(" ")) return word;
  const stem = word.replace(/(?:ies|ied|y|ings?|ed|es|s|e|er|ions?|ations?|ment|ship|ness)$/, "");
  return stem.length >= 3 ? stem : word;
}
