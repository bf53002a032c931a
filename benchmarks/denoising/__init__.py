"""What denoising is worth: on a generated encyclopedia, where the truth is known, and on real questions.

    python -m benchmarks.denoising                                     what each policy takes out; nothing is trained but a judge, if asked
    python -m benchmarks.denoising retrievers --folder DIR             retrievers trained on each policy's set, on the encyclopedia
    python -m benchmarks.denoising real --folder DIR --data DATA       the same on EntityQuestions and Wikipedia passages

The last two may take hours and can be killed: the same command goes on. `plan.py` holds all that could be tuned, `verdict.py` the rule
by which an order is claimed; both were committed before the official run.

The encyclopedia was made to have false negatives (docs/encyclopedia.md): its shares and differences are no evidence about other
collections.
"""
