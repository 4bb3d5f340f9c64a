// A chat over AG-UI with its official client.
import { HttpAgent } from "@ag-ui/client";

const server = new URLSearchParams(location.search).get("server") ?? "http://127.0.0.1:7878";
const agent = new HttpAgent({ url: `${server}/ag-ui`, threadId: crypto.randomUUID() });
const root = document.querySelector("#root");
root.innerHTML = `
  <ul aria-label="Tools"></ul>
  <p aria-live="polite"></p>
  <form><input aria-label="Message" placeholder="multiply 5 and 4" required /><button>Send</button></form>`;
const [tools, answer, form] = root.children;

form.addEventListener("submit", async (submitted) => {
  submitted.preventDefault();
  tools.replaceChildren();
  answer.textContent = "";
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: form.elements[0].value });
  const lines = new Map();
  await agent.runAgent({ runId: crypto.randomUUID() }, {
    onToolCallStartEvent: ({ event }) => {
      const line = document.createElement("li");
      line.textContent = `${event.toolCallName} …`;
      lines.set(event.toolCallId, line);
      tools.append(line);
    },
    onToolCallResultEvent: ({ event }) => {
      const line = lines.get(event.toolCallId);
      line.textContent = line.textContent.replace("…", event.content);
    },
    onTextMessageContentEvent: ({ event }) => {
      answer.textContent += event.delta;
    },
    onRunErrorEvent: ({ event }) => {
      answer.textContent = event.message;
    },
  });
});
