"""Our own simulation runs: many seeds of a scenario, faults drawn from each, and promises that must hold.

A scenario is a story that runs in one simulated world: `*_story.py` makes its cluster and clients, lets them
work while faults happen, heals everything, and asks the checkers.  Each has its parts beside it, by name:

    *_lives.py      the options of a client, drawn from the seed
    *_work.py       what an application does with it
    *_faults.py     what may go wrong
    *_evidence.py   what is known afterwards, of logs and requests
    *_promises.py   the checkers: what must hold all the same

What several stories share stands by itself, such as recovery.py: when a cluster has recovered.

To add one: write a story with `run_seed(seed, shape, *, keep_timeline) -> Report` (`seed.play_seed`
does what all have in common; producer_story.py is the shortest to begin from), enter it into `SCENARIOS` of
scenarios.py, play it with `python -m tests.campaign.run --scenario mine --seed 1`, plant bugs that its
checkers must notice (tests/simulation/test_consume_transform_produce.py), and give it a line in `.ci/run` and
noxfile.py.
"""
