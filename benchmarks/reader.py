"""Reading: time per question with 1 and with 100 passages, compared with transformers' DPRReader and
`decode_best_spans`, in one run.

    python -m benchmarks.reader [--layers 6] [--questions 4] [--rounds 3] [--device cpu]

MiniLM with a reader's head, passages of about 110 tokens with their question. Both read the same passages with the same
weights and return the best span of up to 10 tokens of each. transformers reads all passages of a question as one batch
in 32 bits, and searches the spans in Python. Ours reads as in `blindspot read`: one batch in bfloat16 on a GPU, batches
of 16 passages of similar length on a CPU.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.machine import in_turn, machine

COUNTS = (1, 100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--questions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device")
    arguments = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), arguments)


def measure(folder: Path, arguments: argparse.Namespace) -> None:
    import torch
    from transformers import DPRReader, DPRReaderTokenizerFast

    from blindspot.backend.reader.model import load_reader, start_reader
    from blindspot.backend.reader.reader import Reader
    from blindspot.db.records import Passage

    made = start_reader("minilm", layers=arguments.layers)
    made.network.save_pretrained(folder)
    made.inputs.tokenizer.save_pretrained(folder)
    ours = Reader(load_reader(folder), arguments.device)
    network = DPRReader.from_pretrained(folder).eval().to(ours.device)
    tokenizer = DPRReaderTokenizerFast.from_pretrained(folder)
    sentence = "in {year} she sailed from Bergen to Oslo with {n} weavers"
    texts = [
        " ".join(sentence.format(year=1800 + (n * 7 + i) % 200, n=n % 9) for i in range(6 + n % 4))
        for n in range(max(COUNTS))
    ]
    passages = [Passage(f"p{n}", f"Person {n}", text) for n, text in enumerate(texts)]
    asked = [f"Where did person {n} sail from in {1800 + n}?" for n in range(arguments.questions)]

    def theirs(count: int) -> None:
        for question in asked:
            inputs = tokenizer(
                [question] * count,
                [p.title for p in passages[:count]],
                [p.text for p in passages[:count]],
                padding=True,
                truncation=True,
                max_length=350,
                return_tensors="pt",
            ).to(ours.device)
            with torch.inference_mode():
                outputs = [each.tolist() for each in network(**inputs)[:3]]
            tokenizer.decode_best_spans(
                {"input_ids": inputs["input_ids"].tolist()},
                outputs,
                num_spans=count,
                max_answer_length=10,
                num_spans_per_passage=1,
            )

    def read(count: int) -> None:
        for question in asked:
            ours.read(question, passages[:count])

    for count in COUNTS:
        a, b, ratio = in_turn(partial(read, count), partial(theirs, count), arguments.rounds)
        print(
            f"{count} passages, {arguments.layers} layers, {ours.device}: ours {1000 * a / len(asked):,.1f} ms a "
            f"question, transformers' DPRReader {1000 * b / len(asked):,.1f} ms, {ratio:.2f} times as fast"
        )


if __name__ == "__main__":
    main()
