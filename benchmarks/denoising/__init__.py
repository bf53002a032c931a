"""The value of denoising, on a generated encyclopedia with known truth and on real questions.

python -m benchmarks.denoising                                     passages that each policy removes; trains nothing but
an optional judge python -m benchmarks.denoising retrievers --folder DIR             retrievers trained on each policy's
set, on the encyclopedia python -m benchmarks.denoising real --folder DIR --data DATA       the same on EntityQuestions
and Wikipedia passages

The last two may take hours. If killed, the same command resumes. `plan.py` has every tunable setting, `verdict.py` the
rule for claims; both were committed before the official run.

The encyclopedia is generated with planted false negatives (docs/encyclopedia.md), so its shares and differences are no
evidence about other collections.
"""
