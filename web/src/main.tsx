/** Starts the page. */

import { render } from "preact";
import { App } from "./app";
import { whenBack } from "./server/probe";
import { followWhileVisible, tryNow } from "./server/run_feed";
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
followWhileVisible();

const root = document.getElementById("app");
if (root) render(<App />, root);
setTimeout(warmUp, 500);
