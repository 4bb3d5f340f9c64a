/** Starts the page. */

import { render } from "preact";
import { App } from "./app";
import { whenBack } from "./server/probe";
import { tryNow } from "./server/run_feed";
import { warmUp } from "./ui/markdown";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/frame.css";
import "./styles/chat.css";
import "./styles/run.css";
import "./styles/lists.css";

whenBack(tryNow);
// The device knows before any request does that the line is back.
addEventListener("online", tryNow);
document.addEventListener("visibilitychange", () => !document.hidden && tryNow());

const root = document.getElementById("app");
if (root) render(<App />, root);
setTimeout(warmUp, 500);
