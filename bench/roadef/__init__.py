"""The machine reassignment problem of the ROADEF/EURO challenge 2012, solved by our search of places.

Shared with the tools are the strategies: ``tabu_search`` and ``annealing`` of
:mod:`ganeti_htools.engine.balancing`, and the turns that they take (``place_search``). They ask a problem by
two protocols. The rules here are the challenge's own; limits and costs are data (:mod:`bench.roadef.terms`).
Not shared is all that the tools have beside the strategies: the rules of nodes, and ways of instances.
"""
