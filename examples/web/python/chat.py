"""A chat in the terminal with `turnwire-client`: tokens as they come, tools on standard error."""

import asyncio
import os
import sys

from turnwire_client import Turnwire


async def main(message: str) -> None:
    async with Turnwire(os.environ.get("TURNWIRE_URL", "http://127.0.0.1:7878")) as turnwire:
        await turnwire.stream_chat(
            message,
            on_token=lambda token: print(token, end="", flush=True),
            on_tool_start=lambda name: print(f"→ {name}", file=sys.stderr),
            on_tool_end=lambda name, result: print(f"← {name}: {result}", file=sys.stderr),
        )
    print()


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "multiply 5 and 4"))
