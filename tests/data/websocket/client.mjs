// A client of Node's own WebSocket: sends what its arguments say, prints what it receives, as lines of JSON.
const [url, ...commands] = process.argv.slice(2);
const socket = new WebSocket(url);
const print = (...words) => console.log(JSON.stringify(words));
socket.onopen = () => {
  for (const command of commands) {
    const [verb, ...words] = command.split(" ");
    if (verb === "text") socket.send(words.join(" "));
    if (verb === "large") socket.send("x".repeat(Number(words[0])));
    if (verb === "binary") socket.send(new Uint8Array(3));
    if (verb === "close") socket.close(Number(words[0]), words.slice(1).join(" "));
  }
};
socket.onmessage = ({ data }) => print("message", data.length > 100 ? data.length : data);
socket.onclose = ({ code, reason }) => print("close", code, reason);
