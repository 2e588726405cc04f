/** What is called from outside: one JSON value in, one out. */

Object.assign(globalThis, {
  mcpb: {
    begin,
    adopt,
    element: elementItself,
    hostsWithoutRoot,
    read: readPage,
    find: findElements,
    text: readText,
    place: placeOf,
    scrollTo: scrollToElement,
    hit: hitAt,
    scrollers: scrollersAt,
    fill: fillIn,
    fieldsLabelled,
    submitter: submitterOf,
    sees: seesTexts,
    quietness,
    focusInfo,
    select: selectText,
    copySelection,
    describe: describeElement,
    receive: receivePiece,
    giveFiles,
    download: saveDownload,
  },
});
