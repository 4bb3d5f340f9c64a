"""The example of README.md, as printed but for the address of the server."""

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Readme(unittest.TestCase):
    def test_the_example_works_as_printed(self):
        [code] = re.findall(
            r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
        )
        code = code.replace("http://127.0.0.1:7878", os.environ["TURNWIRE_DEMO_URL"])
        ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        for expected in (
            "→ multiply\n← multiply: 20\n",
            "completed: 5 times 4 is 20.\n",
            " succeeded\n",
            "404 not_found\n",
        ):
            self.assertIn(expected, ran.stdout)


if __name__ == "__main__":
    unittest.main()
