// The chat of one room. The protocol is described in main.go and room.go of this example.

const room = decodeURIComponent(location.pathname.slice(1));
const at = (id) => document.getElementById(id);
const [talk, say, ask, state, here] = ["talk", "say", "ask", "state", "here"].map(at);

const longest = 1000; // bytes of a message
const kept = 500; // lines on the page
const codes = { badName: 4000, taken: 4001 };

let name = sessionStorage.getItem("name") ?? "";
let socket;
let turn = 0; // of the newest list of who is there
let failures = 0; // attempts since the last welcome

document.title = room;
at("room").textContent = room;

// add puts a line at the end, which stays in sight if it was.
function add(kind, ...parts) {
  const atEnd = talk.scrollHeight - talk.scrollTop - talk.clientHeight < 40;
  const line = document.createElement("li");
  line.className = kind;
  line.append(...parts);
  talk.append(line);
  while (talk.children.length > kept) talk.firstChild.remove();
  if (atEnd) talk.scrollTop = talk.scrollHeight;
}

function element(kind, text) {
  const e = document.createElement(kind);
  e.textContent = text;
  return e;
}

function clock() {
  return element("time", new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }));
}

function show(text, on) {
  state.textContent = text;
  state.classList.toggle("on", on);
  here.parentElement.classList.toggle("stale", !on);
  say.hidden = !name;
  say.querySelector("button").disabled = !on;
}

// list shows who is there. Events may overtake each other: an older list is passed over.
function list(e) {
  if (e.turn < turn) return;
  turn = e.turn;
  const names = e.here ?? [];
  at("count").textContent = `${names.length} here`;
  here.replaceChildren(...names.map((n) => {
    const item = element("li", n);
    item.classList.toggle("me", n === name);
    return item;
  }));
}

const handlers = {
  welcome(e) {
    failures = 0;
    list(e);
    show(`you are ${e.name}`, true);
    add("news", talk.children.length ? "you are here again" : "you have come in");
    say.elements.text.focus();
  },
  came(e) { list(e); add("news", `${e.name} has come`); },
  left(e) { list(e); add("news", `${e.name} has left`); },
  said(e) {
    if (e.name === name) add("said mine", element("span", e.text), clock());
    else add("said", element("b", e.name), element("span", e.text), clock());
  },
};

function connect() {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  turn = 0;
  show("connecting …", false);
  socket = new WebSocket(`${scheme}//${location.host}/live/${encodeURIComponent(room)}?name=${encodeURIComponent(name)}`);
  socket.onmessage = ({ data }) => {
    const e = JSON.parse(data);
    handlers[e.kind]?.(e);
  };
  socket.onclose = ({ code, reason }) => {
    if (code === codes.badName || code === codes.taken) return askName(reason);
    if (reason) add("news", reason);
    // At random, and longer each time, so that those who were cut off together do not come back together.
    const wait = Math.random() * Math.min(30_000, 500 * 2 ** failures++);
    show(`not connected, next attempt in ${Math.ceil(wait / 1000)} s`, false);
    setTimeout(connect, wait);
  };
}

function askName(why) {
  show("not connected", false);
  say.hidden = true;
  at("why").textContent = why;
  at("name").value = name;
  ask.showModal();
  at("name").select();
}

ask.addEventListener("cancel", (e) => e.preventDefault());
ask.addEventListener("close", () => {
  name = at("name").value;
  sessionStorage.setItem("name", name);
  connect();
});

say.addEventListener("submit", (e) => {
  e.preventDefault();
  const text = say.elements.text.value.trim();
  if (!text || socket.readyState !== WebSocket.OPEN) return;
  if (new TextEncoder().encode(text).length > longest) return add("news", "that was too long, it was not sent");
  socket.send(text);
  say.reset();
});

at("other").addEventListener("submit", (e) => {
  e.preventDefault();
  const other = e.target.elements.room.value.trim();
  if (other) location.href = "/" + encodeURIComponent(other);
});

if (name) connect();
else askName("");
