"""What wrapping costs, what a text costs once it is served, and what its tower costs images.

    python benchmarks/wrapping.py --images PHOTOS                  # 1,000 of them, repeated if there are fewer
    python benchmarks/wrapping.py --images PHOTOS --photos 300 --part text

`wrap`: `nonneg wrap` of a ResNet-50's ONNX file beside ONNX Runtime alone over the same photos with as many threads as
cores, once before and once after; what wrapping adds to the mean of both is the goal: at most 20 s for 1,000 photos.
`text`: a bundle with a text tower of CLIP ViT-B/32's shape (12 layers of 512, 77 tokens), served; the median time of
`POST /embed` with one text at one client (that of serving/load.py) beside that of the tower alone on one thread of this
process, in turns. Beside each stands the processor time, which other work on the machine does not change.
`images`: that bundle and the same without its text tower, side by side by serving/beside.py, which prints its tables;
the image tower is small, so that what the server does beside it shows.
Weights are random: they cost the same. Bias: the page cache is warm. Prints a line a part, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from load import Connection
from provenance import provenance

import nonneg_training.encoder.torchvision_schemas  # noqa: F401 - before torchvision
from nonneg_core.pixels.view import View
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_export.assembly.run_draft import byte_tokenizer
from nonneg_export.assembly.text_towers import TextEncoder
from nonneg_export.calibrate.photo_folder import Photos, find_photos, load_pixels
from nonneg_export.graphs.convert import text_to_onnx, to_onnx
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.text_tower import TOKENS, Tokenizer

SIDE, LENGTH, WIDTH, KNOWN = 224, 77, 512, 49_408
REQUESTS, WARM = 300, 30
TEXT = "a photo of a red bicycle that leans against a wall"
BODY = json.dumps({"texts": [TEXT]}).encode()
HEAD = f"POST /embed HTTP/1.1\r\nHost: tower\r\nContent-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
REQUEST = HEAD.encode() + BODY
NONNEG = Path(sys.executable).with_name("nonneg")


class Spent(NamedTuple):
    """Seconds that passed, and those of the processor."""

    seconds: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s ({self.cpu:.1f} of CPU)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--photos", type=int, default=1000)
    parser.add_argument("--part", choices=("wrap", "text", "images"), help="By default all.")
    options = parser.parse_args()
    found: dict[str, object] = {"photos": options.photos}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        photos = gathered(options.images, options.photos, place / "photos")
        if options.part in (None, "wrap"):
            found |= of_wrapping(photos, place)
        if options.part in (None, "text"):
            found |= of_text(photos, place)
        if options.part in (None, "images"):
            beside(photos, place, options.images)
    print(json.dumps({**found, **provenance()}))


def gathered(source: Path, count: int, place: Path) -> Photos:
    """Return a folder of so many links to photos, each photo several times if there are too few."""
    place.mkdir()
    paths = find_photos(source).paths
    for i in range(count):
        path = paths[i * len(paths) // count if len(paths) >= count else i % len(paths)]
        (place / f"{i:06d}{path.suffix}").symlink_to(path.resolve())
    return find_photos(place)


def of_wrapping(photos: Photos, place: Path) -> dict[str, object]:
    """Return the seconds of `nonneg wrap`, and of running the encoder alone."""
    from torchvision.models import resnet50

    torch.manual_seed(0)
    network = resnet50(weights=None)
    network.fc = torch.nn.Identity()
    encoder = place / "resnet50.onnx"
    example, batch = (torch.zeros(2, 3, SIDE, SIDE),), {0: torch.export.Dim("batch", min=1, max=1024)}
    torch.onnx.export(network.eval(), example, encoder, dynamo=True, dynamic_shapes=(batch,), external_data=False)
    alone = [run_alone(encoder, photos)]
    begun, spent = time.perf_counter(), of_children()
    words = ["wrap", encoder, "--calibrate", photos.folder, "--out", place / "wrapped"]
    subprocess.run([NONNEG, *words], check=True, capture_output=True)
    wrapped = Spent(time.perf_counter() - begun, of_children() - spent)
    alone.append(run_alone(encoder, photos))
    bare = Spent(*(statistics.mean(each) for each in zip(*alone, strict=True)))
    print(f"ResNet-50, {len(photos)} photos: ONNX Runtime alone {bare}, nonneg wrap {wrapped}, "
          f"{wrapped.seconds - bare.seconds:+.1f} s and {wrapped.cpu - bare.cpu:+.1f} s of CPU beyond it")  # fmt: skip
    return {"alone": bare._asdict(), "wrap": wrapped._asdict()}


def of_children() -> float:
    """Processor seconds of all programs that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_alone(encoder: Path, photos: Photos) -> Spent:
    """Return what it takes to read, decode, view and encode all photos, the answers thrown away."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(encoder, settings, providers=["CPUExecutionProvider"])
    name, view = session.get_inputs()[0].name, View(size=SIDE)

    def job(path: Path) -> None:
        pixels = load_pixels(path, view)[0].transpose(2, 0, 1)[None].astype(np.float32) / 255
        session.run(None, {name: pixels})

    begun, spent = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(available_cores()) as pool:
        list(pool.map(job, photos.paths))
    return Spent(time.perf_counter() - begun, time.process_time() - spent)


class Texts(torch.nn.Module):
    """tokens -> features, as CLIP's text tower computes them."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import CLIPTextConfig, CLIPTextModelWithProjection

        sizes = {"vocab_size": KNOWN, "max_position_embeddings": LENGTH, "projection_dim": WIDTH}
        config = CLIPTextConfig(**sizes, eos_token_id=2)  # the number by which it pools at the largest token
        self.model = CLIPTextModelWithProjection(config)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.model(input_ids=tokens).text_embeds
        return found


class Images(torch.nn.Module):
    """pixels -> features of the same width; what they are is of no interest here."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(3, WIDTH, 16, 16)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layer(pixels.permute(0, 3, 1, 2).float() / 255).amax(dim=(2, 3)) - 0.3
        return found


def of_text(photos: Photos, place: Path) -> dict[str, object]:
    """Median milliseconds of a text, served and alone."""
    bundle = two_towers(photos, place, "two-towers")
    session = Session(bundle / "text.onnx", takes=TOKENS)
    rows = Tokenizer(bundle / "tokenizer.json", LENGTH, 0).rows([TEXT])
    served: list[float] = []
    alone: list[float] = []
    command = [NONNEG, "serve", "--model", bundle, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            assert server.stdout is not None
            line = next(line for line in server.stdout if "http://" in line)
            host = line.partition("http://")[2].split()[0].rstrip("/,;")
            client = Connection((host.partition(":")[0], int(host.partition(":")[2])))
            client.socket.setblocking(True)
            for _ in range(WARM):
                ask(client)
                session.run(rows)
            spent, own = cpu_of(server.pid), 0.0
            for _ in range(REQUESTS):
                served.append(timed(lambda: ask(client)))
                before = time.process_time()
                alone.append(timed(lambda: session.run(rows)))
                own += time.process_time() - before
            spent = cpu_of(server.pid) - spent
            client.socket.close()
        finally:
            server.terminate()
    more = [a - b for a, b in zip(served, alone, strict=True)]
    found = {
        "more_p50_ms": round(1e3 * statistics.median(more), 2),
        "more_quartiles_ms": [round(1e3 * each, 2) for each in statistics.quantiles(more, n=4)[::2]],
        "served_p50_ms": round(1e3 * statistics.median(served), 2),
        "alone_p50_ms": round(1e3 * statistics.median(alone), 2),
        "served_cpu_ms": round(1e3 * spent / REQUESTS, 2),
        "alone_cpu_ms": round(1e3 * own / REQUESTS, 2),
    }
    print(f"one text: the tower alone {found['alone_p50_ms']} ms ({found['alone_cpu_ms']} of CPU), served "
          f"{found['served_p50_ms']} ms ({found['served_cpu_ms']} of CPU), "
          f"{found['more_p50_ms']} ms more in turns")  # fmt: skip
    return dict(found)


def beside(photos: Photos, place: Path, images: Path) -> None:
    """Run the comparison of both bundles, with and without a text tower."""
    alone, both = (two_towers(photos, place, name, text=name == "both") for name in ("alone", "both"))
    script = Path(__file__).parent / "serving" / "beside.py"
    versions = [f"both={NONNEG} --model {both}", f"alone={NONNEG}"]
    rounds = ["--clients", "8", "--rounds", "20"]
    subprocess.run([sys.executable, script, *versions, "--photos", images, "--bundle", alone, *rounds], check=True)


def cpu_of(process: int) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def two_towers(photos: Photos, place: Path, name: str, *, text: bool = True) -> Path:
    """Return a bundle with a small image tower and a text tower of real size, put together as `nonneg wrap` does it."""
    from nonneg_export.assembly.calibrate_and_seal import rank, seal
    from nonneg_export.assembly.head_steps import ANALYTIC, HeadSteps
    from nonneg_export.commands.wrap import draft
    from nonneg_export.share.model_card import About
    from nonneg_export.wrap.tower import Tower

    torch.manual_seed(0)
    images = to_onnx(Images(), SIDE)
    texts = TextEncoder(text_to_onnx(Texts().eval(), LENGTH), byte_tokenizer(), LENGTH, 0) if text else None
    tower = Tower(images, View(size=SIDE), weights="random", text=texts)
    work = place / f"work-{name}"
    work.mkdir()
    made = draft(tower, HeadSteps(head=ANALYTIC), About("two-towers"), photos, work)
    ranked = rank(made.draft, photos, work, rule="nested")
    return seal(made.described(ranked, "photos"), place / name).path


def ask(client: Connection) -> None:
    client.ask(REQUEST, 0.0)
    while not client.receive():
        pass
    assert client.status == "200", client.received


def timed(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
