"""How far a store carries: from what an operation costs its server (``bench costs``), on paper and by simulation.

python -m bench.scaling COSTS.json            tell
python -m bench.scaling COSTS.json --write    into docs/explanation/scaling.md and its picture
"""
