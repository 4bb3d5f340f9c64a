// A chat with `useChat` of the AI SDK. The run goes on if this page is reloaded, and so does its stream.
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport } from "ai";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const server = new URLSearchParams(location.search).get("server") ?? "http://127.0.0.1:7878";
// The name of the chat is kept, so that a reload finds its conversation.
const id = (sessionStorage.chat ??= crypto.randomUUID());

function Part({ part }) {
  if (part.type === "text") return <p>{part.text}</p>;
  if (part.type === "dynamic-tool") {
    const state = part.state === "output-available" ? "done" : part.state;
    return <p role="status">{`${part.toolName}: ${state}`}</p>;
  }
  return null;
}

function Chat() {
  const transport = new DefaultChatTransport({ api: `${server}/ai-sdk/chat` });
  const { messages, sendMessage, status, error } = useChat({ id, transport, resume: true });
  const [text, setText] = useState("");
  const send = (submitted) => {
    submitted.preventDefault();
    sendMessage({ text });
    setText("");
  };
  return (
    <main>
      {messages.map(({ id, role, parts }) => (
        <section key={id} aria-label={role}>
          {parts.map((part, n) => <Part key={n} part={part} />)}
        </section>
      ))}
      {error && <p role="alert">{error.message}</p>}
      <form onSubmit={send}>
        <input aria-label="Message" placeholder="multiply 5 and 4" value={text} onChange={({ target }) => setText(target.value)} required />
        <button disabled={status !== "ready"}>Send</button>
        <button type="button" onClick={() => fetch(`${server}/ai-sdk/chat/${id}/stop`, { method: "POST" })}>Stop</button>
      </form>
    </main>
  );
}

createRoot(document.querySelector("#root")).render(<Chat />);
