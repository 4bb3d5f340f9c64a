// A chat with the `turnwire` client: tokens and tools as callbacks, through every disconnect.
import { useRef, useState } from "react";
import { createRoot } from "react-dom/client";
import { Turnwire } from "turnwire";

const server = new URLSearchParams(location.search).get("server") ?? "http://127.0.0.1:7878";
const turnwire = new Turnwire({ baseUrl: server });

function Chat() {
  const [text, setText] = useState("");
  const [answer, setAnswer] = useState("");
  const [tools, setTools] = useState([]);
  const [error, setError] = useState("");
  const stop = useRef(null);

  async function send(submitted) {
    submitted.preventDefault();
    setAnswer("");
    setTools([]);
    setError("");
    stop.current = new AbortController();
    try {
      await turnwire.streamChat({
        message: text,
        signal: stop.current.signal,
        onToken: (token) => setAnswer((answer) => answer + token),
        onToolStart: (toolName) => setTools((tools) => [...tools, `${toolName} …`]),
        onToolEnd: (toolName, result) => setTools((tools) => [...tools.slice(0, -1), `${toolName}: ${result}`]),
      });
    } catch (problem) {
      setError(problem.message);
    }
  }

  return (
    <main>
      <ul aria-label="Tools">{tools.map((tool, n) => <li key={n}>{tool}</li>)}</ul>
      <p aria-live="polite">{answer}</p>
      {error && <p role="alert">{error}</p>}
      <form onSubmit={send}>
        <input aria-label="Message" placeholder="multiply 5 and 4" value={text} onChange={({ target }) => setText(target.value)} required />
        <button>Send</button>
        <button type="button" onClick={() => stop.current?.abort()}>Stop</button>
      </form>
    </main>
  );
}

createRoot(document.querySelector("#root")).render(<Chat />);
