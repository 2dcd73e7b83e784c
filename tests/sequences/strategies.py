"""Random sequences from a small world, so that different ones are often equal for a while."""

from __future__ import annotations

from hypothesis import strategies as st

from asyncsearch.sequences import (
    Sequence,
    chain,
    constant,
    cosine,
    cosine_restarts,
    cyclic,
    exponential,
    linear,
    multistep,
    polynomial,
    step,
    values,
    warmup,
)

HORIZON = 24

numbers = st.sampled_from([0.1, 0.01, 1, 0.2, 0.05])
floats = st.sampled_from([0.1, 0.01, 1.0, 0.2])
gammas = st.sampled_from([0.1, 0.5, 1.0])
milestones = st.lists(st.integers(1, 8).map(lambda n: 3 * n), max_size=3, unique=True).map(sorted)
lengths = st.sampled_from([3, 6, 12])

simple: st.SearchStrategy[Sequence] = st.one_of(
    st.builds(constant, numbers),
    st.builds(multistep, numbers, milestones, gammas),
    st.builds(step, numbers, lengths, gammas),
    milestones.flatmap(
        lambda ms: st.builds(
            lambda vs: values(vs, milestones=ms), st.lists(numbers, min_size=len(ms) + 1, max_size=len(ms) + 1)
        )
    ),
    st.builds(exponential, floats, gammas),
    st.builds(linear, floats, lengths, floats),
    st.builds(polynomial, floats, lengths, st.sampled_from([1.0, 2.0]), floats),
    st.builds(cosine, floats, lengths, st.sampled_from([0.0, 0.1])),
    st.builds(cosine_restarts, floats, lengths, st.sampled_from([1, 2]), st.sampled_from([0.0, 0.1])),
    st.builds(
        cyclic,
        floats,
        floats,
        up=lengths,
        down=st.sampled_from([None, 3, 6]),
        mode=st.sampled_from(["triangular", "triangular2", "exp_range"]),
        gamma=st.sampled_from([1.0, 0.5]),
    ),
)


def _chained(parts: st.SearchStrategy[Sequence]) -> st.SearchStrategy[Sequence]:
    return milestones.flatmap(
        lambda ms: st.lists(parts, min_size=len(ms) + 1, max_size=len(ms) + 1).map(lambda ps: chain(ps, boundaries=ms))
    )


SEQUENCES: st.SearchStrategy[Sequence] = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds(warmup, st.sampled_from([0, 3, 6]), inner, st.sampled_from([0.0, 0.1])), _chained(inner)
    ),
    max_leaves=3,
)

VALUES = st.one_of(SEQUENCES, numbers)
